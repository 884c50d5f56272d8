"""The smallest curves that show a finding, and a variant that does not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from engine.doctor.metrics import metric_findings
from tests.engine.doctor.metrics.curves import Curves, columns

STEPS = 40


def level(value: float) -> list[float]:
    return [value] * STEPS


def rising(first: float, last: float) -> list[float]:
    """A jump after half of the steps, with some jitter."""
    half = STEPS // 2
    jitter = 1 + 0.01 * np.sin(np.arange(STEPS))
    return list(np.array([first] * half + [last] * half) * jitter)


FALLING = [0.5 - 0.05 * (step // 5) if step % 5 == 0 else math.nan for step in range(STEPS)]

CASES: dict[str, tuple[Mapping[str, list[float]], Mapping[str, list[float]]]] = {
    "reward_zero_or_flat.floor": (
        {"reward/mean": [0.5, 0.4, 0.3, 0.2] * 3 + [0.1] * 28},
        {"reward/mean": [0.5, 0.4, 0.3, 0.2] * 3 + [0.1, 0.2] * 14},
    ),
    "reward_zero_or_flat.component_lost": (
        {"rewards/right": [0.2, 0.1] * 3 + [0.0] * 34, "rewards/form": rising(0.5, 0.99)},
        {"rewards/right": [0.2, 0.1] * 3 + [0.0, 0.1] * 17, "rewards/form": rising(0.5, 0.99)},
    ),
    "overfitting.validation_reward": (
        {"reward/mean": rising(0.3, 0.9), "eval_accuracy": FALLING},
        {"reward/mean": rising(0.9, 0.3), "eval_accuracy": FALLING},
    ),
    "judge_parse_failure.share": (
        {"judge/calls": level(96.0), "judge/parse_failures": level(20.0)},
        {"judge/calls": level(96.0), "judge/parse_failures": [0.0] * (STEPS - 1) + [5.0]},
    ),
    "loss_nan.kl": (
        {"actor/kl_loss": [0.01, 0.02, 0.01, math.nan] * 10, "actor/pg_loss": [0.1, -0.1] * 20},
        {"actor/kl_loss": [0.01] * 39 + [math.nan], "actor/pg_loss": [0.1, -0.1] * 20},
    ),
    "loss_flat_no_learning.chance": (
        {"train/loss": [0.6936, 0.6927] * 20},
        {"train/loss": [0.6936, 0.6427] * 20},
    ),
    "slow_step.training": (
        {"timing_s/step": rising(10, 40), "timing_s/update_actor": rising(5, 35)},
        {"timing_s/step": rising(10, 11), "timing_s/update_actor": rising(5, 6)},
    ),
    "slow_step.unknown": (
        {"timing_s/step": rising(10, 40)},
        {"timing_s/step": rising(10, 11)},
    ),
    "slow_step.throughput": (
        {"perf/throughput": rising(4000, 1000)},
        {"perf/throughput": rising(4000, 3900)},
    ),
}


def found(curves: Mapping[str, list[float]]) -> set[str]:
    given: Curves = {name: np.asarray(values) for name, values in curves.items()}
    return {finding.id for finding in metric_findings(columns(given))}


@pytest.mark.parametrize("finding", CASES)
def test_the_finding_is_shown_by_its_curves_and_not_by_healthy_ones(finding: str) -> None:
    unhealthy, healthy = CASES[finding]
    assert finding in found(unhealthy)
    assert finding not in found(healthy)
