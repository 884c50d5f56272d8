"""Fixes of a log from elsewhere are told in the terms of the trainer that wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.diagnose import diagnose_file
from engine.doctor.text.rules import load_rules
from engine.doctor.trainer_dialects import Framework, framework_of, in_terms_of
from engine.run import fixes
from engine.run.finding import Change, Finding, Fix, Severity
from engine.run.finding_kind import Case

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
ROLLOUT = "actor_rollout_ref.rollout"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
FRAME = '  File "/opt/lib/python3.11/site-packages/{}", line 9, in step\n'


def keys(found: Finding) -> set[str]:
    changes = (change for fix in found.fixes for change in fix.changes)
    return {change.key for change in changes if change.kind == "config"}


def oom_in(folder: Path, before: str, name: str = "night.log") -> Finding:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(before + OOM)
    return diagnose_file(folder / name)[0]


@pytest.mark.parametrize(
    ("said", "framework"),
    [
        ("step:7 - actor/pg_loss:0.1\n", Framework.VERL),
        (FRAME.format("verl/workers/fsdp_workers.py"), Framework.VERL),
        (FRAME.format("trl/trainer/grpo_trainer.py"), Framework.TRL),
        ("{'loss': '0.1', 'reward': '0.5', 'reward_std': '0.1'}\n", Framework.TRL),
        (FRAME.format("transformers/trainer.py"), Framework.HF),
        (FRAME.format("trl/trainer/dpo_trainer.py"), Framework.HF),
        ("{'loss': '0.1', 'rewards/chosen': '0.5', 'rewards/margins': '0.1'}\n", Framework.HF),
        ("{'loss': 0.1, 'grad_norm': 0.5, 'learning_rate': 1e-05}\n", Framework.HF),
        (FRAME.format("openrlhf/trainer/ppo_trainer.py"), Framework.OTHER),
        ("all is well\n", Framework.OTHER),
    ],
)
def test_the_trainer_is_known_by_what_it_prints(
    tmp_path: Path, said: str, framework: Framework
) -> None:
    path = tmp_path / "night.log"
    path.write_text(said)
    assert framework_of([path]) is framework


def test_it_is_known_by_the_last_lines_of_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_text("chatter\n" * 200_000 + FRAME.format("trl/trainer/grpo_trainer.py"))
    assert framework_of([path]) is Framework.TRL


def test_what_cannot_be_read_is_of_no_known_trainer(tmp_path: Path) -> None:
    assert framework_of([tmp_path / "none.log", tmp_path]) is Framework.OTHER


def test_verl_is_told_its_own_keys(tmp_path: Path) -> None:
    assert MICRO in keys(oom_in(tmp_path, "step:7 - actor/pg_loss:0.1\n"))


def test_trl_is_told_the_arguments_of_its_config(tmp_path: Path) -> None:
    assert keys(oom_in(tmp_path, FRAME.format("trl/trainer/grpo_trainer.py"))) == {
        "per_device_train_batch_size",
        "gradient_checkpointing",
    }


def test_the_batch_of_trl_decides_the_memory_of_its_log_probs_too(tmp_path: Path) -> None:
    frames = ("_generate_and_score_completions", "_get_per_token_logps_and_entropies")
    lines = (
        f'  File "/e/site-packages/trl/trainer/grpo_trainer.py", line 9, in {f}\n' for f in frames
    )
    said = "Traceback (most recent call last):\n" + "".join(lines)
    found = oom_in(tmp_path, said)
    assert keys(found) == {"per_device_train_batch_size"}
    assert "num_generations" in found.fixes[0].effect


@pytest.mark.parametrize(
    ("said", "argument"),
    [
        ("step:7 - actor/pg_loss:0.1\n", "actor_rollout_ref.rollout.gpu_memory_utilization"),
        (FRAME.format("trl/trainer/grpo_trainer.py"), "vllm_gpu_memory_utilization"),
    ],
)
def test_a_share_is_named_without_a_value_for_the_present_one_is_not_known(
    tmp_path: Path, said: str, argument: str
) -> None:
    result = oom_in(tmp_path, said)
    assert argument not in keys(result)
    assert [fix.title for fix in result.fixes if fix.title.endswith(f": {argument}")]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (FRAME.format("transformers/trainer.py"), "gradient_accumulation_steps rises"),
        (FRAME.format("trl/trainer/grpo_trainer.py"), "gradient_accumulation_steps rises"),
        (FRAME.format("trl/trainer/grpo_trainer.py"), "a multiple of num_generations"),
        ("", "else the batch shrinks"),
        ("step:7 - actor/pg_loss:0.1\n", "the same gradients"),
    ],
)
def test_a_smaller_micro_batch_tells_what_keeps_the_batch(
    tmp_path: Path, said: str, words: str
) -> None:
    result = oom_in(tmp_path, said)
    [effect] = [fix.effect for fix in result.fixes if fix.title == "Use smaller micro batches"]
    assert words in effect


@pytest.mark.parametrize(
    ("framework", "told"),
    [
        (
            Framework.VERL,
            [
                "optim.lr",
                "data.max_response_length",
                "kl_loss_coef",
                f"{ROLLOUT}.n",
            ],
        ),
        (
            Framework.TRL,
            ["learning_rate", "max_completion_length", "beta", "num_generations"],
        ),
        (Framework.HF, ["learning_rate"]),
        (Framework.OTHER, []),
    ],
)
def test_advice_without_a_value_names_the_argument(framework: Framework, told: list[str]) -> None:
    case = Case()
    advice = (
        fixes.lower_rate(case),
        fixes.longer_responses(case),
        fixes.add_kl_loss(case),
        Fix("Sample more rollouts per prompt", key=f"{ROLLOUT}.n"),
        Fix("Look at three rollouts"),
    )
    [finding] = in_terms_of(framework, [Finding("a", Severity.ERROR, "t", "c", fixes=advice)])
    titles = zip(finding.fixes, advice, strict=True)
    named = [new.title.removeprefix(old.title).removeprefix(": ") for new, old in titles]
    assert [one for one in named if one] == told


def test_the_trainer_of_transformers_has_no_inference_engine(tmp_path: Path) -> None:
    result = oom_in(tmp_path, FRAME.format("transformers/trainer.py"))
    assert keys(result) == {"per_device_train_batch_size", "gradient_checkpointing"}
    assert not [fix for fix in result.fixes if "inference engine" in fix.title]


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        ("transformers/trainer.py", "evaluation_loop", {"per_device_eval_batch_size"}),
        (
            "verl/workers/fsdp_workers.py",
            "compute_rm_score",
            {"reward_model.micro_batch_size_per_gpu", "reward_model.use_dynamic_bsz"},
        ),
        ("verl/utils/checkpoint/manager.py", "save_checkpoint", set()),
    ],
)
def test_memory_that_another_part_of_the_program_took_is_not_saved_by_the_training_batch(
    tmp_path: Path, file: str, function: str, expected: set[str]
) -> None:
    frame = FRAME.format(file).replace("in step", f"in {function}")
    said = f"Traceback (most recent call last):\n{frame}    x = y\n"
    assert keys(oom_in(tmp_path, said)) == expected


def test_a_function_of_a_library_in_the_advice_is_no_key_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    path.write_text("ValueError: Target modules [] not found in the base model.\n")
    assert diagnose_file(path)[0].fixes


@pytest.mark.parametrize("framework", [Framework.VERL, Framework.TRL, Framework.HF])
def test_clipping_that_a_trainer_does_by_default_is_no_advice(framework: Framework) -> None:
    advice = (fixes.clip_gradients(Case()), Fix("Look at three rollouts"))
    [finding] = in_terms_of(framework, [Finding("a", Severity.ERROR, "t", "c", fixes=advice)])
    assert [fix.title for fix in finding.fixes] == ["Look at three rollouts"]


def test_an_unknown_trainer_is_advised_in_plain_words(tmp_path: Path) -> None:
    result = oom_in(tmp_path, "")
    assert keys(result) == set()
    assert "Use smaller micro batches" in [fix.title for fix in result.fixes]


def test_the_console_of_a_run_that_was_launched_here_keeps_all(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert MICRO in keys(oom_in(tmp_path / "attempt_1", "", "console.log"))


@pytest.mark.parametrize("framework", [Framework.TRL, Framework.HF, Framework.OTHER])
def test_no_rule_tells_another_trainer_a_key_of_ours(framework: Framework) -> None:
    rules = (
        Finding(rule.id, Severity.ERROR, "title", "cause", fixes=rule.fixes)
        for rule in load_rules()
    )
    named = {key for finding in in_terms_of(framework, rules) for key in keys(finding)}
    assert not {key for key in named if "." in key}


def test_our_own_tools_are_not_offered_for_it() -> None:
    ours = Fix("Test it", (Change("command", "judge-test", "grubrics-tui judge-test RUN"),))
    other = Fix("Work offline", (Change("environment", "WANDB_MODE", "offline"),))
    result = Finding("judge_auth", Severity.ERROR, "title", "cause", fixes=(ours, other))
    [finding] = in_terms_of(Framework.OTHER, [result])
    assert finding.fixes == (other,)


def test_what_followed_is_told_in_the_same_terms() -> None:
    ours = Fix("x", (Change("config", "judge.max_concurrent", 1),))
    below = Finding("a", Severity.ERROR, "t", "c", fixes=(ours,))
    above = Finding("b", Severity.ERROR, "t", "c", followed_by=(below,))
    [finding] = in_terms_of(Framework.OTHER, [above])
    assert finding.followed_by[0].fixes == (Fix("x"),)


def test_what_is_set_by_another_key_in_another_config_is_said_once(tmp_path: Path) -> None:
    titles = [fix.title for fix in oom_in(tmp_path, "").fixes]
    assert len(titles) == len(set(titles))


def test_advice_that_names_a_key_of_another_trainer_is_left_out() -> None:
    advice = (Fix("Set judge.model to another one"), Fix("Raise data.max_prompt_length"))
    [finding] = in_terms_of(Framework.TRL, [Finding("a", Severity.ERROR, "t", "c", fixes=advice)])
    assert finding.fixes == ()
    [finding] = in_terms_of(Framework.VERL, [Finding("a", Severity.ERROR, "t", "c", fixes=advice)])
    assert finding.fixes == advice[1:]
