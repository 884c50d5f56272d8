"""Curves of runs that are well, and ways to make them unhealthy from a known step on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.doctor.metrics import RuleContext, metric_findings
from engine.run.finding import Finding, Severity
from engine.run.history.columns import Batch, Columns

Floats = NDArray[np.float64]
Curves = dict[str, Floats]


def columns(curves: Mapping[str, Floats | Sequence[float]], first_step: int = 1) -> Columns:
    """What the doctor is given; a curve that is shorter than the others ends earlier."""
    size = max(len(curve) for curve in curves.values())
    steps = np.arange(first_step, first_step + size, dtype=float)
    table = {
        name: (np.arange(len(curve)), np.asarray(curve, float)) for name, curve in curves.items()
    }
    result = Columns()
    result.merge(Batch(steps, np.ones(size), steps, table))
    return result


def healthy(seed: int, steps: int | None = None) -> Curves:
    """GRPO that goes well: every metric drifts, wanders and jitters by amounts of its own."""
    rng = np.random.default_rng(seed)
    n = steps or int(rng.choice([5, 8, 12, 20, 30, 60, 100, 200, 500]))
    time = np.arange(n) / n

    def curve(level: float, noise: float, walk: float, trend: float = 0.0) -> Floats:
        wander = np.cumsum(rng.normal(0, walk / np.sqrt(n), n))
        return level + trend * time + wander + rng.normal(0, noise, n)

    def positive(low: float, high: float, noise: float, walk: float, trend: float = 0.0) -> Floats:
        return np.exp(curve(rng.uniform(np.log(low), np.log(high)), noise, walk, trend))

    calls = np.full(n, 96.0)
    return {
        "reward/mean": curve(
            rng.uniform(-0.5, 0.6), rng.uniform(0.005, 0.15), 0.2, rng.uniform(0, 0.6)
        ),
        "reward/std": np.abs(curve(0.3, 0.05, 0.1, -0.15)) + 0.02,
        "reward/zero_std_share": rng.binomial(8, 0.1 + 0.4 * time * rng.uniform()) / 8,
        "reward/failed_share": rng.binomial(96, 0.002, n) / 96,
        "actor/entropy": positive(0.1, 3, 0.1, 0.3, -rng.uniform(0, 1.5)),
        "actor/grad_norm": positive(0.05, 3, rng.uniform(0.1, 0.7), 0.4),
        "actor/kl_loss": np.abs(curve(0.001, 0.002, 0.05, rng.uniform(0, 0.3))),
        "actor/pg_loss": rng.normal(0, 0.05, n),
        "actor/lr": np.minimum(1e-6, 1e-7 * np.arange(1, n + 1)),
        "response_length/mean": positive(30, 3000, 0.1, 0.3, rng.uniform(-0.5, 1)),
        "response_length/clip_ratio": np.clip(curve(rng.uniform(0, 0.4), 0.05, 0.1), 0, 1),
        "prompt_length/max": np.round(positive(40, 900, 0.1, 0.0)),
        "timing_s/step": positive(1, 300, rng.uniform(0.02, 0.5), 0.1)
        * np.concatenate([[rng.uniform(1, 15)], np.ones(n - 1)]),
        "judge_api_latency_s": positive(0.001, 20, 0.2, 0.2),
        "judge/calls": calls,
        "judge/timeouts": rng.binomial(96, 0.01, n).astype(float),
        "judge/parse_failures": rng.binomial(96, 0.001, n).astype(float),
        "val/reward": curve(0.2, 0.05, 0.1, 0.3)[: max(1, n // 10)],
    }


def healthy_sft(seed: int, steps: int = 200) -> Curves:
    rng = np.random.default_rng(seed)
    time = np.arange(steps) / steps
    return {
        "train/loss": np.exp(0.8 - time) + rng.normal(0, 0.05, steps),
        "train/grad_norm": np.exp(rng.normal(0, 0.3, steps)),
        "train/lr": 1e-5 * (1 - time) + 1e-9,
        "val/loss": (np.exp(0.9 - 0.8 * time) + rng.normal(0, 0.02, steps))[: steps // 10],
    }


def alerts(findings: Sequence[Finding]) -> list[str]:
    """Ids of what is more than information, consequences not counted."""
    return [finding.id for finding in findings if finding.severity is not Severity.INFO]


def everything(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with all that is folded below them."""
    return [each for finding in findings for each in (finding, *everything(finding.followed_by))]


def find(findings: Sequence[Finding], id: str) -> Finding:
    """The finding whose id begins so, wherever it is folded."""
    result = [finding for finding in everything(findings) if finding.id.startswith(id)]
    assert result, f"no {id} in {[one.id for one in everything(findings)]}"
    return result[0]


WEIGHTS = {
    "reward_config.lambda_len": 0.1,
    "reward_config.lambda_info": 0.3,
    "reward_config.lambda_defense": 0.3,
    "reward_config.char_threshold": 3000,
    "data.max_response_length": 64,
}
"""Rewards from -1.3 to 1.3."""


def alerts_of(curves: Mapping[str, Floats | Sequence[float]], **known: Any) -> list[str]:
    """The alerts of curves, and of what is known besides."""
    return alerts(metric_findings(columns(curves), RuleContext(**known)))
