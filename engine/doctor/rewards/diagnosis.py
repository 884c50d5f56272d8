"""Findings from the reward records of an attempt, now and as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.doctor import rule_plugins
from engine.doctor.metrics.root_cause import fold_consequences
from engine.doctor.rewards import failures, flat
from engine.doctor.rewards.step_counts import RewardFile, RewardSteps
from engine.run.finding import Finding
from engine.run.history.columns import Columns
from engine.run.rule_context import RuleContext

SEEN_IN_CURVES = (
    "reward_zero_or_flat",
    "reward_function_error.nan",
    "judge_timeout_or_connection.samples_failed",
    "judge_parse_failure.share",
    "judge_timeout_or_connection.timeouts",
    "loss_flat_no_learning.no_gradient",
)
"""Metric findings (by the start of their id) of faults for which the records have the cause."""


class RewardDiagnosis:
    """Follows one attempt's ``reward.jsonl``. Memory is bounded; a call reads only new records."""

    def __init__(self, path: Path) -> None:
        self._file = RewardFile(path)

    def findings(
        self, context: RuleContext | None = None, columns: Columns | None = None
    ) -> list[Finding]:
        """Return the current findings. ``columns`` show whether responses were truncated."""
        self._file.poll()
        records = RewardSteps(self._file.steps(), context or RuleContext(), str(self._file.path))
        if not records.steps:
            return []
        failed = list(failures.check(records))
        if any(finding.severity.is_alert for finding in failed):
            zero_std = list(flat.check_gold(records))
        else:
            zero_std = list(flat.check(records, _cut_share(columns)))
        return [*failed, *zero_std, *rule_plugins.findings(rule_plugins.REWARD_RULES, records)]


def reward_findings(
    path: Path, context: RuleContext | None = None, columns: Columns | None = None
) -> list[Finding]:
    """Return the findings of a ``reward.jsonl``; none if the file is missing or healthy."""
    return RewardDiagnosis(path).findings(context, columns)


def merge_numbers(
    rewards: Sequence[Finding], series: Sequence[Finding], values: Sequence[Finding] = ()
) -> list[Finding]:
    """Merge the findings of records, metrics and config, root cause first.

    Metric findings of a fault that the records explain are folded below it. A collapsed policy
    explains the texts in the records, and a config value explains the collapse.
    """
    explained = [
        finding
        for finding in series
        if rewards and (finding.id == rewards[0].id or finding.id.startswith(SEEN_IN_CURVES))
    ]
    others = [finding for finding in series if finding not in explained]
    roots = [
        replace(finding, followed_by=(*finding.followed_by, *explained)) if index == 0 else finding
        for index, finding in enumerate(rewards)
    ]
    return fold_consequences([*values, *roots, *others])


def _cut_share(columns: Columns | None) -> flat.CutShare:
    def share(step: int) -> float | None:
        if columns is None:
            return None
        series = columns.get("response_length/clip_ratio")
        before = series.values[series.steps <= step]
        return float(before[-1]) if before.size else None

    return share
