"""A finding says which number it names: a chart beside it shows the newest value, a median is
another one."""

from __future__ import annotations

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import Floats, columns, find

LATE = "(median of the last 3 steps)"


def ending(calm: float, *last: float) -> Floats:
    """37 values like the first one, and three at the end, of which none is their median alone."""
    return np.concatenate([np.full(34, calm), np.full(3, last[1]), last])


@pytest.mark.parametrize(
    ("metric", "values", "id", "told"),
    [
        ("actor/kl_loss", ending(0.01, 3.0, 5.0, 9.0), "kl_or_grad_blowup.kl", "is 5"),
        ("actor/grad_norm", ending(0.5, 300, 400, 900), "kl_or_grad_blowup.gradient", "is 400"),
        ("train/loss", ending(1.5, 7.0, 8.0, 9.5), "kl_or_grad_blowup.loss", "is 8"),
        (
            "actor/entropy",
            ending(1.5, 0.003, 0.002, 0.001),
            "collapse_entropy_or_length.entropy",
            "is 0.002",
        ),
        (
            "actor/entropy",
            ending(1.0, 5.0, 6.0, 9.0),
            "collapse_entropy_or_length.entropy_explosion",
            "is 6",
        ),
        (
            "response_length/mean",
            ending(200.0, 1.0, 2.0, 3.0),
            "collapse_entropy_or_length.length",
            "have 2",
        ),
        (
            "response_length/clip_ratio",
            ending(0.0, 1.0, 0.95, 0.92),
            "collapse_entropy_or_length.length_cap",
            "95%",
        ),
    ],
)
def test_what_a_series_is_by_the_end_is_said_to_be_a_median(
    metric: str, values: Floats, id: str, told: str
) -> None:
    one = find(metric_findings(columns({metric: values})), id)
    assert f"{told} {LATE}" in one.cause


def test_the_evidence_of_a_change_says_over_how_many_steps_its_medians_are() -> None:
    values = np.concatenate([np.full(30, 0.01), [3.0, 4.0, 5.0, 9.0]])
    one = find(metric_findings(columns({"actor/kl_loss": values})), "kl_or_grad_blowup.kl")
    assert one.evidence[0].text == (
        "actor/kl_loss rose from 0.01 to 5 since step 31 (medians: 20 steps before, the last 3)"
    )


def test_a_log_that_numbers_no_steps_has_medians_of_records() -> None:
    curves = {"actor/kl_loss": ending(0.01, 3.0, 5.0, 9.0)}
    findings = metric_findings(columns(curves), RuleContext(is_counted=True))
    one = find(findings, "kl_or_grad_blowup.kl")
    assert "(median of the last 3 records)" in one.cause
    assert one.evidence[0].text.endswith("(medians: 20 records before, the last 3)")


def test_seconds_of_slow_steps_are_said_to_be_medians() -> None:
    slow = np.where(np.arange(40) < 25, 1.0, 30.0)
    curves = {"timing_s/step": 10 + slow, "timing_s/gen": slow}
    one = find(metric_findings(columns(curves)), "slow_step.generation")
    assert "takes 40 s (median of the last 5 steps) since step 26" in one.cause
    assert "1 s before, 30 s now (medians)" in one.cause


def test_seconds_of_the_judge_are_said_to_be_medians() -> None:
    curves = {
        "timing_s/step": np.full(30, 60.0),
        "reward_total_duration_s": np.full(30, 50.0),
        "judge_api_latency_s": np.full(30, 2.0),
        "semaphore_wait_s": np.full(30, 20.0),
    }
    (one,) = metric_findings(columns(curves))
    assert one.cause.endswith("of a step (medians of the last 10 steps).")
    slower = {"judge_api_latency_s": np.where(np.arange(30) < 20, 1.0, 9.0)}
    one = find(metric_findings(columns(slower)), "judge_timeout_or_connection.slower")
    assert "takes 9 s (median of the last 5 steps) since step 21" in one.cause


def test_samples_without_a_reward_are_counted_over_the_steps_that_it_names() -> None:
    share = np.concatenate([np.zeros(20), np.full(6, 0.4)])
    findings = metric_findings(columns({"reward/failed_share": share}))
    one = find(findings, "judge_timeout_or_connection.samples_failed")
    assert one.cause.startswith("In the last 5 steps 40% of the rollouts")
