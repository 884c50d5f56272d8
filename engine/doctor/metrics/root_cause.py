"""Finds the root causes: consequences are folded below the finding that caused them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from engine.run.finding import Finding


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of ``root_cause.yaml``."""

    causes: dict[str, tuple[str, ...]]
    head_start: dict[str, int]
    exact: tuple[str, ...]
    explains_only: dict[str, tuple[str, ...]]


@cache
def _order() -> _Order:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.yaml.decode(text, type=_Order)


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
    are_alerts = root.severity.is_alert and finding.severity.is_alert
    return are_alerts and in_order and root.id.startswith(_possible_causes(finding.id))


def _rank(finding: Finding) -> tuple[int, float, str]:
    onset = float("inf") if finding.onset_step is None else finding.onset_step
    return finding.severity.rank, onset, finding.id


def _find_cause(finding: Finding, findings: list[Finding]) -> Finding | None:
    """Return the likeliest cause among the findings, which is always an alert."""
    if not finding.severity.is_alert:
        return None
    for prefix in _possible_causes(finding.id):
        for cause in findings:
            explains = _order().explains_only.get(cause.id)
            if explains is not None and not finding.id.startswith(explains):
                continue
            is_alert = cause.severity.is_alert
            if is_alert and cause.id.startswith(prefix) and _precedes(cause, finding):
                return cause
    return None


def _precedes(cause: Finding, finding: Finding) -> bool:
    exact = _order().exact
    if cause.id.startswith(exact) or finding.id.startswith(exact):
        return (_onset(cause), *_age(cause)[1:]) < (_onset(finding), *_age(finding)[1:])
    return _age(cause) < _age(finding)


def _onset(finding: Finding) -> float:
    return float("-inf") if finding.onset_step is None else finding.onset_step


def _possible_causes(id: str) -> tuple[str, ...]:
    causes = _order().causes
    return causes.get(_longest(causes, id), ())


def _age(finding: Finding) -> tuple[float, int, str]:
    """Return a key for a total order, so that no two findings can cause each other."""
    head_start = _order().head_start
    key = _longest(head_start, finding.id)
    index = list(head_start).index(key) if key else len(head_start)
    return _onset(finding) - head_start.get(key, 0), index, finding.id


def _longest(beginnings: Iterable[str], id: str) -> str:
    return max((each for each in beginnings if id.startswith(each)), key=len, default="")
