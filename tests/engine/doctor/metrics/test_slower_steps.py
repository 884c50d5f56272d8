"""Slow steps: which phase, and whether the judge or its queue."""

from __future__ import annotations

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import alerts_of, columns, find


def test_the_phase_that_grew_is_named() -> None:
    slow = np.where(np.arange(40) < 25, 1.0, 30.0)
    curves = {
        "timing_s/step": 10 + slow,
        "timing_s/gen": np.full(40, 5.0),
        "reward_total_duration_s": slow,
        "judge_api_latency_s": slow,
        "semaphore_wait_s": np.full(40, 0.01),
    }
    findings = metric_findings(columns(curves))
    assert find(findings, "slow_step.judge").onset_step == 26


def test_rewards_that_stream_in_while_rollouts_are_generated_are_not_the_slow_phase() -> None:
    slow = np.where(np.arange(40) < 25, 10.0, 80.0)
    curves = {
        "timing_s/step": 20 + slow,
        "timing_s/gen": slow,
        "reward_total_duration_s": slow * 1.1,
        "reward_wait_s": np.full(40, 1.0),
        "judge_api_latency_s": np.full(40, 2.0),
        "semaphore_wait_s": np.full(40, 0.01),
    }
    findings = metric_findings(columns(curves))
    assert "generation" in find(findings, "slow_step.generation").cause


def test_a_wait_longer_than_the_call_is_the_queues() -> None:
    curves = {
        "timing_s/step": np.full(30, 60.0),
        "reward_total_duration_s": np.full(30, 50.0),
        "judge_api_latency_s": np.full(30, 2.0),
        "semaphore_wait_s": np.full(30, 20.0),
    }
    context = RuleContext({"judge.max_concurrent": 10})
    (one,) = metric_findings(columns({**curves, "judge/calls": np.full(30, 96.0)}), context)
    assert one.id == "slow_step.judge_queue"
    # 96 calls of 2 s in the 10 s that the rest of a step takes: 19.2 at once
    assert one.fixes[0].changes[0].after == 20
    (unknown,) = metric_findings(columns(curves), context)
    assert unknown.fixes[0].changes == ()


def test_no_more_calls_are_proposed_than_the_server_lets_through() -> None:
    curves = {
        "timing_s/step": np.full(30, 60.0),
        "reward_total_duration_s": np.full(30, 50.0),
        "judge_api_latency_s": np.full(30, 2.0),
        "semaphore_wait_s": np.full(30, 20.0),
        "judge/calls": np.full(30, 100.0),
        "judge/rate_limits": np.full(30, 40.0),
    }
    context = RuleContext({"judge.max_concurrent": 10})
    (one,) = metric_findings(columns(curves), context)
    assert one.fixes[0].changes == ()
    assert "about 6 of 10 concurrent calls" in one.fixes[0].title


def test_a_limit_that_is_no_bottleneck_is_not_raised() -> None:
    curves = {
        "timing_s/step": np.full(30, 20.0),
        "reward_total_duration_s": np.full(30, 18.0),
        "judge_api_latency_s": np.full(30, 15.0),
        "judge/calls": np.full(30, 8.0),
    }
    (one,) = metric_findings(columns(curves), RuleContext({"judge.max_concurrent": 10}))
    assert one.id == "slow_step.judge"
    assert [fix.changes for fix in one.fixes] == [(), ()]


def test_a_judge_that_takes_most_of_every_step() -> None:
    curves = {
        "timing_s/step": np.full(5, 20.0),
        "reward_total_duration_s": np.full(5, 18.0),
        "judge_api_latency_s": np.full(5, 5.0),
    }
    assert alerts_of(curves) == ["slow_step.judge"]
    assert alerts_of({**curves, "reward_total_duration_s": np.full(5, 12.0)}) == []


def test_rewards_that_come_in_during_generation_are_no_wait_for_the_judge() -> None:
    curves = {
        "timing_s/step": np.full(9, 100.0),
        "timing_s/gen": np.full(9, 85.0),
        "reward_total_duration_s": np.full(9, 84.0),
        "judge_api_latency_s": np.full(9, 2.0),
    }
    assert alerts_of(curves) == []
    assert alerts_of({**curves, "reward_wait_s": np.full(9, 2.1)}) == []
    assert alerts_of({**curves, "reward_wait_s": np.full(9, 83.0)}) == ["slow_step.judge"]


def test_a_slow_first_step_is_information() -> None:
    (one,) = metric_findings(columns({"timing_s/step": [11.0, 0.8, 0.9, 0.8, 0.7, 0.8]}))
    assert (one.id, one.severity) == ("slow_step.warm_up", "info")


def test_saving_that_takes_a_large_share() -> None:
    saves = np.full(40, np.nan)
    saves[9::10] = 150.0
    steps = np.full(40, 40.0) + np.nan_to_num(saves)
    ids = alerts_of({"timing_s/step": steps, "timing_s/save_checkpoint": saves})
    assert ids == ["slow_step.saving"]


@pytest.mark.parametrize(("step", "share"), [(0.0, "100%"), (150.0, "50%"), (100.0, "60%")])
def test_saving_may_take_as_long_as_the_logged_step(step: float, share: str) -> None:
    saves = np.full(40, 150.0)
    curves = {"timing_s/step": np.full(40, step), "timing_s/save_checkpoint": saves}
    finding = find(metric_findings(columns(curves)), "slow_step.saving")
    assert finding.title == f"Checkpointing takes {share} of the time"


def test_a_latency_that_was_0_at_first_can_rise() -> None:
    latency = np.concatenate([np.zeros(20), np.full(10, 9.0)])
    (finding,) = metric_findings(columns({"judge_api_latency_s": latency}))
    assert (finding.id, finding.onset_step) == ("judge_timeout_or_connection.slower", 21)


def test_a_limit_of_time_that_nobody_knows_is_said_in_words() -> None:
    latency = np.concatenate([np.full(20, 1.0), np.full(10, 9.0)])
    (unknown,) = metric_findings(columns({"judge_api_latency_s": latency}))
    context = RuleContext({"judge.timeout_s": 60})
    (known,) = metric_findings(columns({"judge_api_latency_s": latency}), context)
    assert unknown.cause.endswith("limit of a call is not known.")
    assert known.cause.endswith("limit of a call is 60 s.")


def test_a_judge_that_became_slow_is_dated() -> None:
    slow = np.where(np.arange(12) < 6, 1.0, 50.0)
    curves = {
        "timing_s/step": 10 + slow,
        "reward_total_duration_s": slow,
        "judge_api_latency_s": np.full(12, 2.0),
    }
    one = find(metric_findings(columns(curves)), "slow_step.judge")
    assert one.onset_step == 7


@pytest.mark.parametrize(("tokens", "severity"), [(6000.0, "info"), (1800.0, "warning")])
def test_steps_that_grow_with_their_responses_are_no_slower(tokens: float, severity: str) -> None:
    late = np.arange(60) >= 30
    curves = {
        "timing_s/step": np.where(late, 300.0, 60.0),
        "timing_s/gen": np.where(late, 250.0, 45.0),
        "response_length/mean": np.where(late, tokens, 1000.0) + np.arange(60),
    }
    (one,) = metric_findings(columns(curves))
    assert (one.id, one.severity) == ("slow_step.generation", severity)
