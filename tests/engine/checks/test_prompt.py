"""One prompt is really rendered: the model must see the question."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.checks import prompt
from engine.checks.chat_template import read_template
from engine.checks.check import Check, Subject
from engine.checks.samples import choose_rows
from engine.checks.token_view import read_token_view
from tests.engine.checks.project import Project, example, row

pytestmark = pytest.mark.long

MODEL = Path("models/base")
GEMMA = (
    "{% for m in messages %}"
    "{% if m.role != 'system' and (m.role == 'user') == (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"
)
"""Takes the project's rows, which begin with a system message, and no question at index 0 or 2."""
THOUGHTS_OF_THE_LAST_TURN = (
    "{% generation %}{% if loop.last and loop.index0 > 0 and message.role == 'assistant' %}"
    "<think>\n\n</think>\n\n{% endif %}"
)


def answer(project: Project, *overrides: str) -> Check:
    return project.checks("grpo", *overrides)["prompt"]


def use_template(source: str) -> None:
    (MODEL / "chat_template.jinja").write_text(source)


def test_prompts_are_rendered_and_measured(project: Project) -> None:
    check = answer(project)
    assert check.status == "ok"
    assert check.message == "all 15 rows rendered with models/base: 47 tokens"


def test_a_template_that_drops_the_question_is_refused(project: Project) -> None:
    use_template("{{ messages[0].content }}" + " word" * 40)
    check = answer(project)
    assert check.status == "fail"
    assert "the text lacks the question; of row 0 the model sees" in check.message


def answer_of_plain_rows(project: Project, *contents: str) -> Check:
    """For prompts of an own reward function's data, which have no ``extra_info.question``."""
    rows = [row(number) for number in range(len(contents))]
    for entry, content in zip(rows, contents, strict=True):
        entry["prompt"] = [{"role": "user", "content": content}]
        entry["extra_info"]["question"] = None
    project.write("data/train.parquet", rows)
    return prompt.check(Subject(project.config("grpo"), {}, project.root / "runs"))


def test_rows_are_rendered_without_the_tokenizers_package(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    check = answer(project)
    assert check.status == "ok"
    assert check.message == "all 15 rows rendered with models/base: tokens not counted"


def test_a_question_of_a_few_tokens_is_a_question(project: Project) -> None:
    assert answer_of_plain_rows(project, *["Why?"] * 8).status == "ok"


def test_a_prompt_without_a_question_is_refused_with_its_row(project: Project) -> None:
    check = answer_of_plain_rows(project, "Why?", " \n", *["How?"] * 6)
    assert check.status == "fail"
    assert "train.parquet row 1: the last message is empty" in check.message


def test_a_template_that_drops_the_prompt_of_plain_rows_is_refused(project: Project) -> None:
    use_template("{{ bos_token }}" + " word" * 40)
    check = answer_of_plain_rows(project, *["Why?"] * 8)
    assert "the text lacks the question; of row 0" in check.message


def test_a_template_that_leaves_the_system_message_out_is_a_warning(project: Project) -> None:
    use_template(
        "{% for m in messages if m.role != 'system' %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        + " word" * 40
    )
    rows = [row(number) for number in range(8)]
    for entry in rows:
        entry["prompt"].insert(0, {"role": "system", "content": "Write a rubric."})
    project.write("data/train.parquet", rows)
    check = answer(project)
    assert check.status == "warn"
    assert "leaves the system message out" in check.message


def test_a_template_that_refuses_a_role_is_quoted(project: Project) -> None:
    use_template("{{ raise_exception('System role not supported') }}")
    assert "System role not supported" in answer(project).message


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ 'x' * 10**10 }}", "memory"),
        (
            "{% set n = namespace(s='x') %}{% for _ in range(60) %}{% set n.s = n.s ~ n.s %}"
            "{% endfor %}{{ n.s }}",
            "memory",
        ),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "without an end",
        ),
    ],
    ids=["constant", "doubling", "loops"],
)
def test_a_template_without_an_end_is_a_failure_in_one_line(
    project: Project, source: str, problem: str
) -> None:
    use_template(source)
    check = answer(project)
    assert check.status == "fail" and problem in check.message
    with pytest.raises(UsageError, match=problem):
        read_token_view(project.config())


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
    assert template.render_each([[{"role": "é"}, {"role": "b"}]]) == ['<s>{"role": "é"}</s>']


def test_prompts_that_would_all_be_dropped_are_refused(project: Project) -> None:
    overrides = ("data.max_prompt_length=30", "data.filter_overlong_prompts=true")
    check = answer(project, *overrides)
    assert check.status == "fail"
    assert check.fix == "data.max_prompt_length=47"


LONG = "What helps? " + "Explain each step. " * 100


@pytest.mark.row("H24")
def test_a_prompt_with_a_text_of_the_blocklist_is_a_warning(project: Project) -> None:
    write_long(project, "data/train.parquet", at=2, count=5)
    check = answer(
        project, "data.max_prompt_length=500", f"grubrics.blocklist=[nowhere, '{LONG[:9].upper()}']"
    )
    assert "1 prompt contains a text of grubrics.blocklist: train.parquet row 2" in check.message


def write_long(project: Project, path: str, at: int, count: int = 128) -> None:
    """A file of ``count`` rows of which the row ``at`` has some 400 tokens."""
    rows = [row(number) for number in range(count)]
    rows[at]["prompt"][1]["content"] = rows[at]["extra_info"]["question"] = LONG
    project.write(path, rows)


@pytest.mark.row("H19")
@pytest.mark.parametrize("truncation", ["error", "right", "middle"])
def test_a_long_prompt_is_found_in_any_row_and_refused_because_verl_cuts_it(
    truncation: str, project: Project
) -> None:
    write_long(project, "data/train.parquet", at=100)
    check = answer(project, f"data.truncation={truncation}")
    assert check.status == "fail"
    assert "1 of 131 rows exceed data.max_prompt_length=256 tokens: train.parquet row 100 (4" in (
        check.message
    )
    assert "verl keeps only their last" in check.message
    assert f"data.truncation={truncation} has no effect" in check.message
    assert check.fix is not None and check.fix.startswith("data.max_prompt_length=4")


def test_long_prompts_cut_on_the_left_as_asked_are_a_warning(project: Project) -> None:
    write_long(project, "data/train.parquet", at=100)
    check = answer(project, "data.truncation=left")
    assert check.status == "warn"
    assert "no effect" not in check.message


@pytest.mark.row("H19")
def test_a_long_prompt_of_the_validation_file_is_named(project: Project) -> None:
    write_long(project, "data/val.parquet", at=7, count=9)
    assert "val.parquet row 7" in answer(project).message


@pytest.mark.row("V18")
def test_every_file_of_a_list_is_measured(project: Project) -> None:
    write_long(project, "data/more.parquet", at=3, count=5)
    config = project.config()
    files = ["data/train.parquet", "data/more.parquet"]
    listed = replace(config, values={**config.values, "data.train_files": files})
    check = prompt.check(Subject(listed, {}, project.root / "runs"))
    assert "more.parquet row 3" in check.message


def test_long_prompts_that_are_dropped_are_a_warning(project: Project) -> None:
    write_long(project, "data/train.parquet", at=100)
    check = answer(project, "data.filter_overlong_prompts=true", "data.truncation=error")
    assert check.status == "warn"
    assert "are dropped" in check.message


def test_dropping_prompts_until_no_batch_is_left_is_refused(project: Project) -> None:
    rows = [row(number) for number in range(6)]
    for entry in rows[:3]:
        entry["prompt"][1]["content"] = entry["extra_info"]["question"] = LONG
    project.write("data/train.parquet", rows)
    check = answer(project, "data.filter_overlong_prompts=true")
    assert check.status == "fail"
    assert "which leaves 3 of the 6 training rows, fewer than 4 needed" in check.message


def test_of_more_text_than_fits_into_the_budget_the_longest_rows_are_measured(
    project: Project,
) -> None:
    write_long(project, "data/train.parquet", at=100)
    path = Path("data/train.parquet")
    masks, total = choose_rows([path], "prompt", budget=5000)
    chosen = [number for number, is_chosen in enumerate(masks[path]) if is_chosen]
    assert total == 128 and 100 in chosen and 1 < len(chosen) < 128


def test_a_model_that_thinks_unasked_is_a_warning(project: Project) -> None:
    source = (MODEL / "chat_template.jinja").read_text()
    use_template(source + "{% if enable_thinking is false %}<think></think>{% endif %}")
    key = "data.apply_chat_template_kwargs.enable_thinking"
    assert answer(project).fix == f"{key}=false"
    assert answer(project, f"{key}=false").status == "ok"


def test_a_model_of_the_hub_that_is_not_cached_is_skipped(project: Project) -> None:
    check = answer(project, "actor_rollout_ref.model.path=Qwen/Qwen3-8B")
    assert check.status == "skip"


def sft_answer(project: Project, *overrides: str) -> Check:
    return project.checks("sft", *overrides)["prompt"]


@pytest.mark.row("H19")
def test_an_sft_example_whose_answer_is_cut_is_a_warning_that_names_the_line(
    project: Project,
) -> None:
    long = example(8)
    long["messages"][-1]["content"] += " and asks again" * 100
    with Path("data/sft/train.jsonl").open("a") as file:
        file.write(json.dumps(long) + "\n")
    check = sft_answer(project)
    assert check.status == "warn"
    assert "1 of 9 rows exceed data.max_seq_length=256 tokens: train.jsonl line 9 (3" in (
        check.message
    )
    assert "the end of the answer" in check.message and "nothing of the answer" not in check.message


def test_sft_examples_that_lose_their_whole_answer_are_named(project: Project) -> None:
    long = example(8)
    long["messages"][1]["content"] += " and asks again" * 100
    with Path("data/sft/train.jsonl").open("a") as file:
        file.write(json.dumps(long) + "\n")
    check = sft_answer(project)
    assert check.status == "warn"
    assert "train.jsonl line 9: nothing of the answer remains to train on" in check.message


def test_sft_data_that_lose_every_answer_are_refused(project: Project) -> None:
    check = sft_answer(project, "data.max_seq_length=40")
    assert check.status == "fail"
    assert check.fix == "data.max_seq_length=61"


@pytest.mark.row("H32")
def test_sft_with_a_template_that_refuses_one_message_alone_is_refused(project: Project) -> None:
    use_template(GEMMA)
    check = sft_answer(project)
    assert check.status == "fail"
    assert "message by message" in check.message
    assert "Conversation roles must alternate" in check.message
    assert "custom_chat_template" in str(check.fix)


def test_a_template_of_the_configs_own_replaces_the_models(project: Project) -> None:
    lenient = (MODEL / "chat_template.jinja").read_text()
    use_template(GEMMA)
    config = project.config("sft")
    mended = replace(config, values={**config.values, "model.custom_chat_template": lenient})
    assert prompt.check(Subject(mended, {}, project.root / "runs")).status == "ok"


def test_a_template_that_marks_the_last_turn_is_refused_unless_that_is_accepted(
    project: Project,
) -> None:
    source = (MODEL / "chat_template.jinja").read_text()
    use_template(source.replace("{% generation %}", THOUGHTS_OF_THE_LAST_TURN))
    check = sft_answer(project)
    assert check.status == "fail"
    assert "<think>" in check.message
    assert check.fix == "data.ignore_input_ids_mismatch=true"
    assert sft_answer(project, check.fix).status == "ok"


def test_a_template_with_a_system_message_of_its_own_is_no_fault(project: Project) -> None:
    source = (MODEL / "chat_template.jinja").read_text()
    own = "{% if messages[0].role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n{% endif %}"
    use_template(own + source)
    lines = Path("data/sft/train.jsonl").read_text().splitlines()
    records = [{"messages": json.loads(line)["messages"][1:]} for line in lines]
    Path("data/sft/train.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert sft_answer(project).status == "ok"


def test_a_template_that_is_none_is_one_line(project: Project) -> None:
    use_template("{% for message in messages %}")
    check = answer(project)
    assert check.status == "fail"
    assert "cannot be read" in check.message
