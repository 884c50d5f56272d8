"""Steps that are slow from the first one on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.doctor.diagnose import diagnose_file
from engine.doctor.metrics import RuleContext, metric_findings
from engine.run.finding import Finding
from tests.engine.doctor.metrics.curves import columns

TIMING = (
    "(RewardLoopWorker pid=9) STEP_TIMING step={step} gpu_phase={gpu}s (rollout + gradient)\n"
    "(RewardLoopWorker pid=9) STEP_TIMING step={step} reward_phase: calls=96 wall={wall}s"
    " | per_reward=(avg=44.0s max=60.1s min=20.0s) | sem_wait=(avg={wait}s max=50.0s)"
    " | api=(avg={api}s max=20.0s min=5.0s) | max_concurrent=4\n"
)


def slow(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.category == "slow_step"]


def timed(tmp_path: Path, **values: float) -> list[Finding]:
    log = tmp_path / "console.log"
    log.write_text("".join(TIMING.format(step=step, **values) for step in range(1, 6)))
    return slow(diagnose_file(log))


def test_a_log_of_timings_alone_shows_the_queue_before_the_judge(tmp_path: Path) -> None:
    (one,) = timed(tmp_path, gpu=40.0, wall=360.0, wait=32.05, api=12.0)
    assert (one.id, one.severity) == ("slow_step.judge_queue", "warning")
    assert "400 s" in one.title and "waits 32 s" in one.cause


@pytest.mark.row("G45")
def test_the_four_times_of_a_slow_step_are_evidence(tmp_path: Path) -> None:
    (one,) = timed(tmp_path, gpu=40.0, wall=360.0, wait=32.05, api=12.0)
    assert dict(one.evidence[-1].values) == {
        "gpu_phase_duration_s": 40.0,
        "reward_total_duration_s": 360.0,
        "judge_api_latency_s": 12.0,
        "semaphore_wait_s": 32.05,
    }
    assert "semaphore_wait_s 32 s" in one.evidence[-1].text


@pytest.mark.row("G45")
def test_calls_that_take_longer_than_they_wait_are_the_judges(tmp_path: Path) -> None:
    (one,) = timed(tmp_path, gpu=40.0, wall=360.0, wait=0.1, api=44.0)
    assert one.id == "slow_step.judge"


def test_steps_of_five_minutes_and_less_are_not_slow(tmp_path: Path) -> None:
    assert timed(tmp_path, gpu=40.0, wall=260.0, wait=1.0, api=12.0) == []


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        ("timing_s/update_actor", "actor update"),
        ("timing_s/gen", "generation"),
        ("timing_s/old_log_prob", "log-probabilities"),
        ("timing_s/update_weights", "weight sync"),
        ("timing_s/data", "waiting for data"),
        ("timing_s/update", "update"),
    ],
)
def test_the_phase_that_takes_most_of_a_slow_step_is_named(phase: str, word: str) -> None:
    curves = {"timing_s/step": np.full(12, 400.0), phase: np.full(12, 340.0)}
    (one,) = slow(metric_findings(columns(curves)))
    assert (one.id, one.severity) == ("slow_step.long", "warning")
    assert f"(85%) is {word}" in one.cause


def test_a_larger_micro_batch_is_proposed_for_a_slow_update() -> None:
    key = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    curves = {"timing_s/step": np.full(12, 400.0), "timing_s/update_actor": np.full(12, 340.0)}
    (one,) = slow(metric_findings(columns(curves), RuleContext({key: 2})))
    assert [(change.key, change.after) for change in one.fixes[0].changes] == [(key, 4)]


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ({"timing_s/gen": 150.0}, "the largest phase is generation with 38%"),
        ({}, "the log has no times of its phases"),
    ],
)
def test_a_slow_step_of_many_equal_parts_accuses_none(phases: dict[str, float], said: str) -> None:
    curves = {name: np.full(12, value) for name, value in phases.items()}
    (one,) = slow(metric_findings(columns({"timing_s/step": np.full(12, 400.0), **curves})))
    assert (one.id, one.severity) == ("slow_step.long", "info")
    assert said in one.cause


def test_a_phase_of_few_steps_is_no_part_of_the_usual_step() -> None:
    saving = np.where(np.arange(60) % 20 == 19, 390.0, np.nan)
    curves = {"timing_s/step": np.full(60, 400.0), "timing_s/save_checkpoint": saving}
    findings = slow(metric_findings(columns(curves)))
    assert not any(
        "saving checkpoints" in finding.cause for finding in findings if "400 s" in finding.title
    )


def test_validation_in_every_step_is_named() -> None:
    curves = {"timing_s/step": np.full(12, 400.0), "timing_s/testing": np.full(12, 340.0)}
    assert any(
        "(85%) is validation" in finding.cause for finding in slow(metric_findings(columns(curves)))
    )


def test_rewards_that_stream_in_are_no_phase_of_a_slow_step() -> None:
    curves = {
        "timing_s/step": np.full(12, 400.0),
        "timing_s/gen": np.full(12, 340.0),
        "reward_total_duration_s": np.full(12, 360.0),
        "reward_wait_s": np.full(12, 2.0),
        "judge_api_latency_s": np.full(12, 0.5),
    }
    (one,) = slow(metric_findings(columns(curves)))
    assert (one.id, "(85%) is generation" in one.cause) == ("slow_step.long", True)
