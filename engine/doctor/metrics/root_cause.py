"""Finds the root causes: consequences are folded below the finding that caused them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.findings.finding import Finding

_CAUSES = {
    "loss_nan": (
        "kl_or_grad_blowup.rate",
        "reward_function_error.nan",
        "kl_or_grad_blowup",
        "collapse_entropy_or_length",
    ),
    "reward_function_error.nan": ("loss_nan",),
    "loss_flat_no_learning": ("loss_flat_no_learning.rate_zero",),
    "reward_zero_or_flat": (
        "reward_zero_or_flat.cap_too_short",
        "reward_zero_or_flat.no_group",
        "data_missing_or_schema",
        "kl_or_grad_blowup.rate",
        "loss_nan",
        "judge_",
        "collapse_entropy_or_length",
        "kl_or_grad_blowup",
    ),
    "collapse_entropy_or_length": (
        "collapse_entropy_or_length.temperature",
        "kl_or_grad_blowup.rate",
        "loss_nan",
        "kl_or_grad_blowup",
        "collapse_entropy_or_length",
        "judge_",
        "reward_zero_or_flat.zero",
        "reward_zero_or_flat.all_wrong",
        "reward_zero_or_flat.one_number",
    ),
    "kl_or_grad_blowup": (
        "kl_or_grad_blowup.rate",
        "loss_nan",
        "kl_or_grad_blowup",
        "collapse_entropy_or_length",
    ),
    "judge_timeout_or_connection.samples_failed": ("judge_",),
    "slow_step": ("judge_", "collapse_entropy_or_length.length_cap"),
}
"""Possible causes of a finding, by the start of its ID, the likeliest first."""
_HEAD_START = {
    "data_missing_or_schema": 1000,
    "reward_function_error": 10,
    "reward_function_error.nan": 0,
    "judge_": 10,
    "loss_flat_no_learning.rate_zero": 10,
    "kl_or_grad_blowup": 5,
    "loss_nan": 0,
    "collapse_entropy_or_length.length": 5,
    "collapse_entropy_or_length.entropy": 3,
    "collapse_entropy_or_length.temperature": 1000,
    "collapse_entropy_or_length.cap_from_start": 1000,
    "reward_zero_or_flat.cap_too_short": 1000,
    "reward_zero_or_flat.no_group": 1000,
    "kl_or_grad_blowup.rate": 1000,
    "reward_zero_or_flat.zero": 2,
    "reward_zero_or_flat.all_wrong": 2,
    "reward_zero_or_flat.one_number": 3,
}
"""How many steps later than its consequence a cause may be dated, by the start of its ID: a jump is
dated more exactly than a drift. Of two equal ones, the first in this table is the cause."""
_EXACT = ("loss_nan", "reward_function_error.nan")
"""Findings that are dated exactly: nothing that begins before a NaN follows from it."""
_EXPLAINS_ONLY: Mapping[str, tuple[str, ...]] = {
    "kl_or_grad_blowup.policy_loss": (),
    "kl_or_grad_blowup.spikes": (),
    "collapse_entropy_or_length.cap_from_start": tuple(
        f"reward_zero_or_flat.{kind}" for kind in ("all_wrong", "zero", "equal", "floor")
    ),
}
"""The only consequences of these findings, which are early signs or states from the start."""


def fold_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, worst and earliest first, with consequences folded below their causes.

    A root cause is at least as severe as its consequences.
    """
    ordered = sorted(findings, key=_rank)
    consequences: dict[int, list[Finding]] = {}
    roots = []
    for finding in ordered:
        chain = [finding]
        while (cause := _find_cause(chain[-1], ordered)) is not None and cause not in chain:
            chain.append(cause)
        # Two of three may each precede the next one: then the earliest is the cause.
        root = chain[-1] if cause is None else min(chain, key=_onset)
        if root is finding:
            roots.append(finding)
        else:
            consequences.setdefault(id(root), []).append(finding)
    folded = [root.with_consequences(consequences.get(id(root), ())) for root in roots]
    return sorted(folded, key=_rank)


def may_follow(finding: Finding, root: Finding) -> bool:
    """Return whether an alert may be a consequence of ``root``, as far as their steps are known."""
    steps = (root.onset_step, finding.onset_step)
    in_order = None in steps or _age(root)[0] <= _age(finding)[0]
    are_alerts = root.severity.is_alarm and finding.severity.is_alarm
    return are_alerts and in_order and root.id.startswith(_possible_causes(finding.id))


def _rank(finding: Finding) -> tuple[int, float, str]:
    onset = float("inf") if finding.onset_step is None else finding.onset_step
    return finding.severity.rank, onset, finding.id


def _find_cause(finding: Finding, findings: list[Finding]) -> Finding | None:
    """Return the likeliest cause among the findings, which is always an alert."""
    if not finding.severity.is_alarm:
        return None
    for prefix in _possible_causes(finding.id):
        for cause in findings:
            explains = _EXPLAINS_ONLY.get(cause.id)
            if explains is not None and not finding.id.startswith(explains):
                continue
            is_alert = cause.severity.is_alarm
            if is_alert and cause.id.startswith(prefix) and _precedes(cause, finding):
                return cause
    return None


def _precedes(cause: Finding, finding: Finding) -> bool:
    if cause.id.startswith(_EXACT) or finding.id.startswith(_EXACT):
        return (_onset(cause), *_age(cause)[1:]) < (_onset(finding), *_age(finding)[1:])
    return _age(cause) < _age(finding)


def _onset(finding: Finding) -> float:
    return float("-inf") if finding.onset_step is None else finding.onset_step


def _possible_causes(id: str) -> tuple[str, ...]:
    keys = [key for key in _CAUSES if id.startswith(key)]
    return _CAUSES[max(keys, key=len)] if keys else ()


def _age(finding: Finding) -> tuple[float, int, str]:
    """Return a key for a total order, so that no two findings can cause each other."""
    keys = [key for key in _HEAD_START if finding.id.startswith(key)]
    key = max(keys, key=len, default="")
    index = list(_HEAD_START).index(key) if key else len(_HEAD_START)
    return _onset(finding) - _HEAD_START.get(key, 0), index, finding.id
