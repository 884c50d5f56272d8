"""The reward records of an attempt and what they say, now and as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.doctor.metrics.limits import reward_range
from engine.doctor.metrics.root_cause import rooted
from engine.doctor.rewards import failures, flat, gold
from engine.doctor.rewards.reader import RewardTallies
from engine.findings.finding import Finding
from engine.findings.run_context import MetricContext
from engine.history.columns import Columns

SEEN_IN_CURVES = (
    "reward_zero_or_flat",
    "reward_function_error.nan",
    "judge_timeout_or_connection.samples_failed",
    "judge_parse_failure.share",
    "judge_timeout_or_connection.timeouts",
    "loss_flat_no_learning.no_gradient",
)
"""What metric rules see of the same fault, by the beginning of the id: the records know better."""


class RewardDiagnosis:
    """Follows one attempt's ``reward.jsonl``. Memory is bounded; each look reads what is new."""

    def __init__(self, path: Path) -> None:
        self._tallies = RewardTallies(path)

    def findings(
        self, context: MetricContext | None = None, columns: Columns | None = None
    ) -> list[Finding]:
        """What the records show now. ``columns`` tell whether responses were cut at the cap."""
        known = context or MetricContext()
        if known.reward_range is None:
            known = replace(known, reward_range=reward_range(known.recipe))
        self._tallies.look()
        steps, path = self._tallies.steps(), str(self._tallies.path)
        if not steps:
            return []
        failed = list(failures.findings(steps, known, path))
        hidden = any(one.severity.is_alarm for one in failed)
        flat_now = [] if hidden else list(flat.findings(steps, known, path, _capped(columns)))
        return [*failed, *(flat_now or gold.findings(steps))]


def reward_findings(
    path: Path, context: MetricContext | None = None, columns: Columns | None = None
) -> list[Finding]:
    """The findings of a ``reward.jsonl``; none where the file is missing or healthy."""
    return RewardDiagnosis(path).findings(context, columns)


def joined(
    rewards: Sequence[Finding], series: Sequence[Finding], values: Sequence[Finding] = ()
) -> list[Finding]:
    """The records', the curves' and the recipe's findings as one list, root first.

    What curves show of a fault that the records explain is folded below it. A policy that
    collapsed explains the texts that records show, and a value of the recipe the collapse.
    """
    explained = [one for one in series if rewards and _is_explained(one, rewards[0])]
    others = [one for one in series if one not in explained]
    roots = [
        replace(one, followed_by=(*one.followed_by, *explained)) if place == 0 else one
        for place, one in enumerate(rewards)
    ]
    return rooted([*values, *roots, *others])


def _is_explained(one: Finding, cause: Finding) -> bool:
    return one.id == cause.id or one.id.startswith(SEEN_IN_CURVES)


def _capped(columns: Columns | None) -> flat.Capped:
    def share(step: int) -> float | None:
        if columns is None:
            return None
        series = columns.get("response_length/clip_ratio")
        before = series.values[series.steps <= step]
        return float(before[-1]) if before.size else None

    return share
