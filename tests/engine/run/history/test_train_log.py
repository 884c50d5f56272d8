"""Joining verl's metrics with the reward's records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.intervals import percentile
from engine.base.typed import convert_record
from engine.logs.formats.series import names, read_columns, series, why_not_logged
from engine.run.history.reward_records import RewardRecord
from engine.run.history.train_log import Step, StepJoiner, history, reward_metrics
from engine.run.run import Attempt


def rollout(group: str, reward: float | None, **more: Any) -> dict[str, Any]:
    return {"split": "train", "step": 1, "group": group, "reward": reward, **more}


def parsed(line: dict[str, Any]) -> Step | None:
    return Step.parse(json.dumps(line).encode())


def metrics_of(rollouts: list[dict[str, Any]]) -> dict[str, float | None]:
    records = [convert_record(fields, RewardRecord) for fields in rollouts]
    return reward_metrics([record for record in records if record is not None])


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    path = tmp_path / "attempt_1"
    path.mkdir()
    return Attempt(path)


def test_reward_std_is_the_spread_inside_groups_not_between_them() -> None:
    records = [rollout("a", 0.0), rollout("a", 0.0), rollout("b", 1.0), rollout("b", 1.0)]
    result = metrics_of(records)
    assert result["reward/std"] == 0.0
    assert result["reward/zero_std_share"] == 1.0
    assert result["reward/mean"] == 0.5


def test_a_failed_rollout_is_counted_but_is_not_a_zero() -> None:
    result = metrics_of([rollout("a", 0.8), rollout("a", None, error={"kind": "timeout"})])
    assert result["reward/mean"] == 0.8
    assert result["reward/failed_share"] == 0.5
    assert result["judge/errors"] == 1.0


def test_reward_duration_spans_first_request_to_last_answer() -> None:
    records = [
        rollout("a", 0.1, t=10.0, duration_s=2.0),
        rollout("a", 0.2, t=13.0, duration_s=1.0),
    ]
    assert metrics_of(records)["reward_total_duration_s"] == pytest.approx(5.0)


def test_rewards_computed_during_generation_add_no_waiting_time() -> None:
    """A rollout is done every 2 s for 80 s; its reward takes 2 s."""
    streaming = [
        rollout("a", 0.1, t=102.0 + 2.0 * n + 0.3 * (n % 3), duration_s=2.0) for n in range(40)
    ]
    result = metrics_of(streaming)
    assert result["reward_total_duration_s"] == pytest.approx(80.0)
    assert result["reward_wait_s"] == pytest.approx(2.0)


def test_rewards_that_follow_each_other_in_one_process_have_waited_in_line() -> None:
    in_line = [rollout("a", 0.1, t=10.0 + n, duration_s=0.999, pid=7) for n in range(8)]
    assert metrics_of(in_line)["reward_wait_s"] == pytest.approx(8.0, abs=0.01)


def test_rewards_that_start_together_are_waited_for_whole() -> None:
    records = [rollout("a", 0.1, t=10.0 + n, duration_s=1.0 + n) for n in range(5)]
    assert metrics_of(records)["reward_wait_s"] == pytest.approx(5.0)


def test_percentile_is_a_value_that_occurred() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert percentile([], 0.95) is None


def test_a_step_joins_metrics_and_rollouts(attempt: Attempt) -> None:
    jsonl.append(attempt.reward, rollout("a", 0.2))
    jsonl.append(attempt.reward, rollout("a", 0.6))
    jsonl.append(attempt.metrics, {"step": 1, "data": {"actor/pg_loss": None}})
    (step,) = StepJoiner(attempt).new_steps()
    assert step.metrics["reward/mean"] == pytest.approx(0.4)
    assert step.metrics["actor/pg_loss"] is None


def test_rollouts_of_the_next_step_wait_for_it(attempt: Attempt) -> None:
    joiner = StepJoiner(attempt)
    jsonl.append(attempt.reward, rollout("a", 0.2))
    jsonl.append(attempt.reward, {**rollout("b", 0.9), "step": 2})
    jsonl.append(attempt.metrics, {"step": 1, "data": {}})
    (first,) = joiner.new_steps()
    jsonl.append(attempt.metrics, {"step": 2, "data": {}})
    (second,) = joiner.new_steps()
    assert first.metrics["reward/mean"] == 0.2
    assert second.metrics["reward/mean"] == 0.9


def test_rollouts_are_counted_before_their_step_is_logged(attempt: Attempt) -> None:
    joiner = StepJoiner(attempt)
    jsonl.append(attempt.reward, rollout("a", 0.2))
    jsonl.append(attempt.reward, {**rollout("a", 0.2), "reward": None})
    assert list(joiner.new_steps()) == []
    assert joiner.progress == 2


def test_validation_rollouts_are_kept_apart(attempt: Attempt) -> None:
    jsonl.append(attempt.reward, rollout("a", 0.2))
    jsonl.append(attempt.reward, {**rollout("v", 0.9), "split": "val"})
    jsonl.append(attempt.metrics, {"step": 1, "data": {}})
    (step,) = StepJoiner(attempt).new_steps()
    assert step.metrics["reward/mean"] == 0.2
    assert step.metrics["val/reward"] == 0.9


@pytest.mark.row("H18")
def test_a_validation_has_an_interval_over_prompts_and_the_best_of_k(attempt: Attempt) -> None:
    rewards = {"a": (0.0, 0.4), "b": (0.2, 0.6), "c": (0.4, 0.8)}
    for group, values in rewards.items():
        for reward in values:
            jsonl.append(attempt.reward, {**rollout(group, reward), "split": "val"})
    jsonl.append(attempt.metrics, {"step": 1, "data": {}})
    (step,) = StepJoiner(attempt).new_steps()
    assert step.metrics["val/reward"] == pytest.approx(0.4)
    assert step.metrics["val/best_of_k"] == pytest.approx(0.6)
    # Prompt means 0.2, 0.4, 0.6: standard error 0.2 / sqrt(3), t(2) = 4.303.
    half = 4.302653 * 0.2 / 3**0.5
    assert step.metrics["val/reward_low"] == pytest.approx(0.4 - half, abs=1e-6)
    assert step.metrics["val/reward_high"] == pytest.approx(0.4 + half, abs=1e-6)


def test_one_answer_per_prompt_has_no_best_of_k(attempt: Attempt) -> None:
    for group in ("a", "b"):
        jsonl.append(attempt.reward, {**rollout(group, 0.5), "split": "val"})
    jsonl.append(attempt.metrics, {"step": 1, "data": {}})
    (step,) = StepJoiner(attempt).new_steps()
    assert "val/best_of_k" not in step.metrics


@pytest.mark.row("G46")
def test_gpu_phase_is_the_step_without_reward_and_save(attempt: Attempt) -> None:
    jsonl.append(attempt.reward, rollout("a", 0.2, t=10.0, duration_s=2.0))
    data = {"timing_s/step": 10.0, "timing_s/save_checkpoint": 3.0}
    jsonl.append(attempt.metrics, {"step": 1, "data": data})
    (step,) = StepJoiner(attempt).new_steps()
    assert step.metrics["gpu_phase_duration_s"] == pytest.approx(5.0)


def test_series_of_verls_own_file_accept_the_seed_names(attempt: Attempt, tmp_path: Path) -> None:
    jsonl.append(attempt.metrics, {"step": 1, "data": {"actor/pg_loss": 0.5}})
    columns = read_columns(str(attempt.metrics), tmp_path)
    assert names(columns) == ["actor/pg_loss"]
    assert series(columns, "policy_loss") == [(1, 0.5)]


@pytest.mark.row("V27")
def test_metrics_are_found_by_the_names_of_dashboards(attempt: Attempt, tmp_path: Path) -> None:
    logged = {"actor/pg_loss": 0.5, "actor/entropy": 2.0, "actor/lr": 1e-4, "perf/throughput": 9.0}
    jsonl.append(attempt.metrics, {"step": 1, "data": {**logged, "critic/score/mean": 0.25}})
    columns = read_columns(str(attempt.metrics), tmp_path, ["train/entropy", "train/reward"])
    assert series(columns, "train/entropy") == [(1, 2.0)]
    assert series(columns, "train/reward") == [(1, 0.25)]
    columns = read_columns(str(attempt.metrics), tmp_path)
    assert series(columns, "train/policy_loss") == [(1, 0.5)]
    assert series(columns, "train/learning_rate") == [(1, 1e-4)]
    assert series(columns, "rollout/throughput") == [(1, 9.0)]


@pytest.mark.row("V27")
def test_a_known_metric_that_no_step_has_has_a_reason(attempt: Attempt, tmp_path: Path) -> None:
    jsonl.append(attempt.metrics, {"step": 1, "data": {"actor/kl_loss": 0.5}})
    columns = read_columns(str(attempt.metrics), tmp_path)
    assert "GRPO has no critic" in (why_not_logged(columns, "train/value_loss") or "")
    assert why_not_logged(columns, "train/kl_loss") is None
    assert why_not_logged(columns, "train/klloss") is None


def test_an_unknown_metric_names_the_nearest(attempt: Attempt, tmp_path: Path) -> None:
    jsonl.append(attempt.metrics, {"step": 1, "data": {"actor/pg_loss": 0.5}})
    columns = read_columns(str(attempt.metrics), tmp_path)
    with pytest.raises(UsageError, match="did you mean 'actor/pg_loss'"):
        series(columns, "actor/pg_los")


def test_a_redone_step_replaces_the_earlier_one() -> None:
    first = [Step(n, 1, 0.0, {"reward/mean": 0.1}) for n in (1, 2, 3)]
    second = [Step(n, 2, 0.0, {"reward/mean": 0.2}, redone=n <= 3) for n in (3, 4)]
    result = history([*first, *second])
    assert [(step.step, step.attempt) for step in result] == [(1, 1), (2, 1), (3, 2), (4, 2)]


def test_only_numbers_and_nulls_are_metrics() -> None:
    values = {"a": 1, "b": None, "c": "0.5", "d": True, "e": [1], "f": 10**400, "g\x1b[2J": 2.0}
    step = parsed({"step": 1, "metrics": values})
    assert step is not None
    assert step.metrics == {"a": 1.0, "b": None, "f": None, "g [2J": 2.0}


@pytest.mark.parametrize("wrong", ["x", [1], {"a": 1}, True, 10**400])
def test_a_wrong_attempt_or_time_costs_only_itself(wrong: Any) -> None:
    raw = {"step": 1, "attempt": wrong, "t": wrong, "metrics": {}}
    assert parsed(raw) == Step(1, 1, 0.0, {})


@pytest.mark.parametrize("wrong", [None, "1", True, 1.5])
def test_a_line_without_a_step_number_is_not_a_step(wrong: Any) -> None:
    assert parsed({"step": wrong, "metrics": {}}) is None


def test_a_huge_reward_is_not_a_reward() -> None:
    assert metrics_of([rollout("a", 1e308), rollout("a", 0.5)])["reward/mean"] == 0.5


def test_the_mark_of_a_redone_step_survives_the_file() -> None:
    step = Step(3, 2, 1.0, {"reward/mean": 0.2}, redone=True)
    assert parsed(step.to_json()) == step


def test_a_validation_that_is_logged_apart_belongs_to_its_step() -> None:
    lines = [
        Step(4, 1, 0.0, {"train/loss": 2.0}),
        Step(4, 1, 1.0, {"val/loss": 3.0}),
        Step(4, 2, 2.0, {"train/loss": 2.5}, redone=True),
    ]
    assert history(lines[:2])[0].metrics == {"train/loss": 2.0, "val/loss": 3.0}
    assert history(lines)[0].metrics == {"train/loss": 2.5}
