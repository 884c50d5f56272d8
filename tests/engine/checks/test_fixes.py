"""A wanted change moves what it touches, keeps what was asked for, or says why it cannot be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.checks.batch_and_steps import BatchSizes, overrides, repaired
from engine.checks.check import Check
from engine.checks.complete_change import (
    Refusal,
    as_overrides,
    complete,
    parse_fix,
)
from engine.config.load import Config, load_config
from engine.run.finding import Change
from tests.engine.checks.project import QWEN2, Project, make_project, row
from tests.paths import ROOT

pytestmark = pytest.mark.long

BATCH = "data.train_batch_size"
MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
LOG_PROB = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"
N = "actor_rollout_ref.rollout.n"
GPUS = "trainer.n_gpus_per_node"
STEPS = "trainer.total_training_steps"
EPOCHS = "trainer.total_epochs"
PROMPT = "data.max_prompt_length"
RESPONSE = "data.max_response_length"
LONGEST = "actor_rollout_ref.rollout.max_model_len"
RANK = LORA = "actor_rollout_ref.model.lora_rank"
PRODUCTION = ROOT / "configs/verl_grpo.yaml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = make_project(tmp_path)
    shutil.copy(PRODUCTION, tmp_path / "configs")
    return made


def want(key: str, value: object) -> list[Change]:
    return [Change("config", key, value)]


def after(config: Config, key: str, value: object) -> dict[str, object]:
    """Every key that moves, with its new value."""
    result = complete(config, want(key, value))
    assert not isinstance(result, Refusal), result.reason
    return {change.key: change.after for change in result}


def test_a_smaller_batch_takes_the_mini_batch_along(project: Project) -> None:
    assert after(project.config("verl_grpo"), BATCH, 16) == {BATCH: 16, MINI: 16}


def test_a_change_that_touches_nothing_comes_alone(project: Project) -> None:
    assert after(project.config("verl_grpo"), "judge.max_concurrent", 4) == {
        "judge.max_concurrent": 4
    }


def test_what_follows_says_why_and_what_it_was(project: Project) -> None:
    result = complete(project.config("verl_grpo"), want(BATCH, 16))
    assert isinstance(result, tuple)
    assert result[1] == Change(
        "config", MINI, 16, before=24, why="a mini batch must divide the batch of a step"
    )


def test_the_wanted_value_is_never_moved_back(project: Project) -> None:
    assert after(project.config("verl_grpo"), MINI, 32) == {MINI: 32, BATCH: 32}


def test_another_number_of_rollouts_moves_the_micro_batches(project: Project) -> None:
    moved = after(project.config("verl_grpo"), N, 3)
    assert moved == {N: 3}  # 24 x 3 = 72 rollouts hold micro batches of 4
    assert after(project.config("verl_grpo", f"{BATCH}=6", f"{MINI}=6"), N, 3) == {
        N: 3,
        MICRO: 3,
        LOG_PROB: 3,
    }


def test_more_gpus_than_the_batch_spreads_over_move_the_batch(project: Project) -> None:
    moved = after(project.config("verl_grpo"), GPUS, 5)
    assert moved[GPUS] == 5
    assert int(str(moved[BATCH])) % 5 == 0


def test_more_steps_than_the_data_gives_take_more_epochs(project: Project) -> None:
    assert after(project.config(), STEPS, 10) == {STEPS: 10, EPOCHS: 4}


def test_fewer_epochs_end_the_run_earlier(project: Project) -> None:
    assert after(project.config(), EPOCHS, 1) == {EPOCHS: 1, STEPS: 3}


def test_a_longer_response_takes_the_engine_along(project: Project) -> None:
    config = project.config("verl_grpo", f"{LONGEST}=2560")
    assert after(config, RESPONSE, 1024) == {RESPONSE: 1024, LONGEST: 3072}


def test_a_response_that_leaves_no_position_shortens_the_prompt(project: Project) -> None:
    moved = after(project.config("verl_grpo", f"{PROMPT}=32768"), RESPONSE, 16384)
    assert moved == {RESPONSE: 16384, PROMPT: 40960 - 16384}


def test_a_rank_that_vllm_does_not_take_is_refused(project: Project) -> None:
    result = complete(project.config("verl_grpo"), want(RANK, 1024))
    assert isinstance(result, Refusal)
    assert "LoRA rank 1024 is more than vLLM's 512" in result.reason


def long_rows(project: Project, *, all_rows: bool) -> None:
    """Rows of which one is, or all are, longer than the context of the model."""
    rows = [row(number) for number in range(12)]
    for entry in rows if all_rows else rows[3:4]:
        question = entry["extra_info"]["question"] + " word" * (600 if all_rows else 3000)
        entry["extra_info"]["question"] = entry["prompt"][1]["content"] = question
    project.write("data/train.parquet", rows)


@pytest.mark.parametrize(
    ("name", "overrides", "rows"),
    [
        ("grpo", [f"{RESPONSE}=1000"], None),
        ("grpo", [f"{RESPONSE}=1000", f"{PROMPT}=20"], None),
        ("grpo", [f"{PROMPT}=3000", f"{RESPONSE}=3000"], None),
        ("grpo", [f"{RESPONSE}=512"], "one"),
        ("grpo", [f"{RESPONSE}=512"], "all"),
        ("grpo", [f"{RESPONSE}=512", "data.filter_overlong_prompts=true"], "all"),
        ("grpo", [f"{N}=1"], None),
        ("grpo", [f"{BATCH}=7", f"{MINI}=3"], None),
        ("grpo", ["trainer.total_training_steps=50"], None),
        ("grpo", [f"{LORA}=8", "actor_rollout_ref.model.target_modules=[q_proj,nope_proj]"], None),
        ("sft", ["data.max_seq_length=5000"], None),
        ("sft", ["data.max_seq_length=20"], None),
    ],
)
def test_the_fixes_of_failing_checks_lead_to_a_config_that_passes(
    project: Project, name: str, overrides: list[str], rows: str | None
) -> None:
    """Each fix is applied, and the checks run again: no fix brings back what another one mended."""
    if rows is not None:
        long_rows(project, all_rows=rows == "all")
    seen: list[list[str]] = []
    while failing := failures(project, name, overrides):
        assert overrides not in seen and len(seen) < 4, (seen, failing)
        seen.append(overrides)
        config = project.config(name, *overrides)
        fixes = [parse_fix(check.fix, config) for check in failing]
        assert all(fixes), failing
        overrides = [*overrides, *(text for fix in fixes if fix for text in fix.overrides)]


def failures(project: Project, name: str, overrides: list[str]) -> list[Check]:
    checks = project.checks(name, *overrides).values()
    return [check for check in checks if check.status == "fail" and check.id != "environment"]


def test_of_lora_targets_those_that_exist_are_kept(project: Project) -> None:
    Path("models/base/config.json").write_text(json.dumps(QWEN2))
    targets = "actor_rollout_ref.model.target_modules=[q_proj,nope_proj]"
    [check] = failures(project, "grpo", [f"{LORA}=8", targets])
    assert str(check.fix).endswith("=[q_proj]")


def test_one_rollout_per_prompt_is_refused_with_the_reason(project: Project) -> None:
    result = complete(project.config(), want(N, 1))
    assert isinstance(result, Refusal)
    assert "uses the reward as advantage" in result.reason


def test_a_batch_that_the_data_cannot_fill_is_refused(project: Project) -> None:
    result = complete(project.config(), want(BATCH, 64))
    assert isinstance(result, Refusal)
    assert "12 training rows for a batch of 64" in result.reason


def test_a_key_that_does_not_exist_is_refused(project: Project) -> None:
    result = complete(project.config(), want("data.train_batchsize", 4))
    assert isinstance(result, Refusal)
    assert "did you mean 'data.train_batch_size'" in result.reason


def test_a_value_of_the_environment_cannot_be_overridden(project: Project) -> None:
    config = load_config("verl_grpo", (), {"JUDGE_MAX_CONCURRENT": "20"})
    result = complete(config, want("judge.max_concurrent", 4))
    assert isinstance(result, Refusal)
    assert "JUDGE_MAX_CONCURRENT" in result.reason


def test_changes_that_are_not_of_the_config_are_passed_on(project: Project) -> None:
    command = Change("command", "shell", "df -h")
    assert complete(project.config(), [command]) == (command,)


def test_the_overrides_are_read_back_as_the_same_values(project: Project) -> None:
    changes = [
        Change("config", "trainer.logger", ["console"]),
        Change("config", "actor_rollout_ref.actor.use_kl_loss", True),
        Change("config", LONGEST, None),
        Change("config", "trainer.experiment_name", "007"),
        Change("environment", "JUDGE_MODEL", "x"),
    ]
    config = project.config().with_overrides(as_overrides(changes))
    assert [config.get(c.key) for c in changes[:4]] == [c.after for c in changes[:4]]


sizes = st.integers(min_value=1, max_value=12)
configs = st.builds(
    BatchSizes,
    batch=sizes,
    mini=sizes,
    n=st.integers(min_value=2, max_value=6),
    micro=sizes,
    log_prob=sizes,
    ref_log_prob=st.none(),
    gpus=st.sampled_from([1, 2, 3, 4, 6, 8]),
)
wishes = st.one_of(
    st.tuples(st.sampled_from([BATCH, MINI, MICRO, LOG_PROB, N]), st.integers(0, 14)),
    st.tuples(st.sampled_from([GPUS, STEPS, EPOCHS]), st.integers(1, 9)),
    st.tuples(st.sampled_from([PROMPT, RESPONSE, LONGEST]), st.integers(1, 900)),
    st.tuples(st.just(RANK), st.integers(0, 64)),
)


@pytest.mark.long
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configs, wishes)
def test_every_completed_config_passes_every_relation(
    project: Project, drawn: BatchSizes, wish: tuple[str, int]
) -> None:
    whole = repaired(drawn)
    none = BatchSizes(0, 0, 0, 0, 0, None, 0)
    chosen = [*overrides(none, whole), f"{GPUS}={whole.gpus}"]
    chosen += ["actor_rollout_ref.rollout.tensor_model_parallel_size=1"]
    config = project.config("grpo", *chosen)
    result = complete(config, want(*wish))
    if isinstance(result, Refusal):
        assert result.reason
        return
    changed = config.with_overrides(as_overrides(result))
    assert changed.get(wish[0]) == wish[1]
    checks = project.checks("grpo", *changed.overrides)
    assert {checks[name].status for name in ("batch", "steps", "limits")} == {"ok"}
