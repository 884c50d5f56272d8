"""One prompt is really rendered: the model must see the question."""

from __future__ import annotations

import json
from pathlib import Path

from engine.preflight.check import Check
from engine.preflight.templates import read_template
from tests.engine.preflight.project import Project, row

MODEL = Path("models/base")


def answer(project: Project, *overrides: str) -> Check:
    return project.checks("grpo", *overrides)["prompt"]


def use_template(source: str) -> None:
    (MODEL / "chat_template.jinja").write_text(source)


def test_prompts_are_rendered_and_measured(project: Project) -> None:
    check = answer(project)
    assert check.status == "ok"
    assert check.message == "12 prompts rendered with models/base: 47 to 47 tokens"


def test_a_template_that_drops_the_question_is_refused(project: Project) -> None:
    use_template("{{ messages[0].content }}" + " word" * 40)
    check = answer(project)
    assert check.status == "fail"
    assert "lacks its question" in check.message


def test_a_prompt_too_short_to_hold_a_question_is_refused(project: Project) -> None:
    rows = [row(number) for number in range(8)]
    for entry in rows:
        entry["prompt"] = [{"role": "user", "content": "Why?"}]
        entry["extra_info"]["question"] = "Why?"
    project.write("data/train.parquet", rows)
    check = answer(project)
    assert check.status == "fail"
    assert "fewer than the 20" in check.message


def test_a_template_that_refuses_a_role_is_quoted(project: Project) -> None:
    use_template("{{ raise_exception('System role not supported') }}")
    assert "System role not supported" in answer(project).message


def test_a_model_without_a_template_is_refused(project: Project) -> None:
    (MODEL / "chat_template.jinja").unlink()
    assert "no chat template" in answer(project).message


def test_the_template_may_stand_in_the_tokenizers_config(project: Project) -> None:
    source = (MODEL / "chat_template.jinja").read_text()
    (MODEL / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": ""}, {"name": "default", "template": source}]
    for stored in (source, named):
        config = json.dumps({"chat_template": stored})
        (MODEL / "tokenizer_config.json").write_text(config)
        assert answer(project).status == "ok"


def test_special_tokens_and_transformers_helpers_are_known_to_templates(tmp_path: Path) -> None:
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "chat_template.jinja").write_text(
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{{ m | tojson }}{% endfor %}{{ strftime_now('') }}{{ eos_token }}"
    )
    template = read_template(tmp_path)
    assert template is not None
    assert template.render([{"role": "é"}, {"role": "b"}]) == '<s>{"role": "é"}</s>'


def test_prompts_that_would_all_be_dropped_are_refused(project: Project) -> None:
    overrides = ("data.max_prompt_length=30", "data.filter_overlong_prompts=true")
    check = answer(project, *overrides)
    assert check.status == "fail"
    assert check.fix == "data.max_prompt_length=47"


def test_prompts_that_would_stop_the_run_are_refused(project: Project) -> None:
    check = answer(project, "data.max_prompt_length=30", "data.truncation=error")
    assert "data.truncation=error stops the run" in check.message


def test_prompts_that_would_be_cut_are_a_warning(project: Project) -> None:
    check = answer(project, "data.max_prompt_length=30", "data.truncation=left")
    assert check.status == "warn"


def test_a_model_that_thinks_unasked_is_a_warning(project: Project) -> None:
    source = (MODEL / "chat_template.jinja").read_text()
    use_template(source + "{% if enable_thinking is false %}<think></think>{% endif %}")
    key = "data.apply_chat_template_kwargs.enable_thinking"
    assert answer(project).fix == f"{key}=false"
    assert answer(project, f"{key}=false").status == "ok"


def test_a_model_of_the_hub_that_is_not_cached_is_skipped(project: Project) -> None:
    check = answer(project, "actor_rollout_ref.model.path=Qwen/Qwen3-8B")
    assert check.status == "skip"


def test_an_sft_example_longer_than_the_limit_is_a_warning(project: Project) -> None:
    check = project.checks("sft", "data.max_seq_length=40")["prompt"]
    assert check.status == "warn"
    assert check.fix == "data.max_seq_length=61"
