"""Finds the root causes: consequences are folded below the finding that caused them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.findings.finding import Finding, Severity

# Possible causes of a finding, by the start of its id; the likeliest first.
_CAUSES = {
    "loss_nan": ("reward_function_error.nan", "kl_or_grad_blowup", "collapse_entropy_or_length"),
    "loss_flat_no_learning": ("loss_flat_no_learning.rate_zero",),
    "reward_zero_or_flat": (
        "reward_zero_or_flat.cap_too_short",
        "reward_zero_or_flat.no_group",
        "data_missing_or_schema",
        "loss_nan",
        "judge_",
        "collapse_entropy_or_length",
        "kl_or_grad_blowup",
    ),
    "collapse_entropy_or_length": (
        "collapse_entropy_or_length.temperature",
        "loss_nan",
        "kl_or_grad_blowup",
        "collapse_entropy_or_length",
        "judge_",
        "reward_zero_or_flat.zero",
        "reward_zero_or_flat.all_wrong",
        "reward_zero_or_flat.one_number",
    ),
    "kl_or_grad_blowup": ("loss_nan", "kl_or_grad_blowup", "collapse_entropy_or_length"),
    "judge_timeout_or_connection.samples_failed": ("judge_",),
    "slow_step": ("judge_", "collapse_entropy_or_length.length_cap"),
}
# How many steps a cause of that kind may be dated later than its consequence: a level that jumps is
# dated better than one that drifts. Between equals the order here decides.
_HEAD_START = {
    "data_missing_or_schema": 1000,
    "reward_function_error": 10,
    "judge_": 10,
    "loss_nan": 2,
    "loss_flat_no_learning.rate_zero": 10,
    "kl_or_grad_blowup": 5,
    "collapse_entropy_or_length.length": 5,
    "collapse_entropy_or_length.entropy": 3,
    "collapse_entropy_or_length.temperature": 1000,
    "reward_zero_or_flat.cap_too_short": 1000,
    "reward_zero_or_flat.no_group": 1000,
    "kl_or_grad_blowup.rate": 1000,
    "reward_zero_or_flat.zero": 2,
    "reward_zero_or_flat.all_wrong": 2,
    "reward_zero_or_flat.one_number": 3,
}


_WARNS_ONLY = frozenset({"kl_or_grad_blowup.policy_loss", "kl_or_grad_blowup.spikes"})
"""Early signs: what follows is not folded below them."""


def fold_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, worst and earliest first, with consequences folded below their causes.

    A root cause is at least as severe as its consequences.
    """
    ordered = sorted(findings, key=_rank)
    below: dict[int, list[Finding]] = {}
    for one in ordered:
        root = _root(one, ordered)
        if root is not one:
            below.setdefault(id(root), []).append(one)
    roots = [one for one in ordered if _cause(one, ordered) is None]
    return sorted((_with(one, below.get(id(one), [])) for one in roots), key=_rank)


def may_follow(finding: Finding, root: Finding) -> bool:
    """Whether an alarm may be the consequence of ``root``, as far as their steps are known."""
    steps = (root.onset_step, finding.onset_step)
    in_order = None in steps or _age(root)[0] <= _age(finding)[0]
    alarms = root.severity.is_alarm and finding.severity.is_alarm
    return alarms and in_order and root.id.startswith(_causes(finding.id))


def _with(root: Finding, followers: list[Finding]) -> Finding:
    worst = min((one.severity for one in (root, *followers)), key=lambda one: one.rank)
    return replace(root, severity=worst, followed_by=(*root.followed_by, *followers))


def _rank(finding: Finding) -> tuple[int, float, str]:
    onset = float("inf") if finding.onset_step is None else finding.onset_step
    return finding.severity.rank, onset, finding.id


def _root(finding: Finding, all_of_them: list[Finding]) -> Finding:
    cause = _cause(finding, all_of_them)
    return finding if cause is None else _root(cause, all_of_them)


def _cause(finding: Finding, all_of_them: list[Finding]) -> Finding | None:
    """The likeliest cause among the findings; never one that is itself no alarm."""
    if finding.severity is Severity.INFO:
        return None
    for prefix in _causes(finding.id):
        for one in all_of_them:
            alarm = one.severity is not Severity.INFO and one.id not in _WARNS_ONLY
            if alarm and one.id.startswith(prefix) and _age(one) < _age(finding):
                return one
    return None


def _causes(id: str) -> tuple[str, ...]:
    """The entry with the longest key that the id begins with."""
    known = [key for key in _CAUSES if id.startswith(key)]
    return _CAUSES[max(known, key=len)] if known else ()


def _age(finding: Finding) -> tuple[float, int, str]:
    """A total order, so that no two findings can cause each other."""
    keys = [key for key in _HEAD_START if finding.id.startswith(key)]
    key = max(keys, key=len, default="")
    place = list(_HEAD_START).index(key) if key else len(_HEAD_START)
    onset = float("-inf") if finding.onset_step is None else finding.onset_step
    return onset - _HEAD_START.get(key, 0), place, finding.id
