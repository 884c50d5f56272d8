"""Merges the findings of the console with those of metrics and records: root cause first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.findings.finding import Finding, Severity

_NAMES_A_CAUSE = 0.4
"""Above this confidence, the cause of death outranks metric findings."""
_CANCELLED = "job_cancelled_or_interrupted"
_BY_HAND = re.compile(r"\^C|KeyboardInterrupt|Ctrl-?C|by (?:the )?user\b", re.IGNORECASE)
_OF_ONE_ROLLOUT = "NoRewardError: "
_NOT_A_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)


def merge_findings(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    """The findings of console and metrics, root cause first, each fault once.

    A job that is cancelled from outside may be sick as well: metric findings that make the whole
    run worthless come before the cancellation.
    """
    if text and any(_explains(one, text[0]) for one in numbers):
        return _ended_in(text[0], merge_findings(text[1:], numbers))
    families = {one.family for one in text}
    same = tuple(one for one in numbers if one.family in families)
    others = [one for one in numbers if one.family not in families]
    told = _with_records(text, same) or [*_with(text[:1], same), *text[1:]]
    if told and (told[0].confidence >= _NAMES_A_CAUSE or not _alarms(others)):
        told, rest = _folded(told, others)
        if told[0].family == _CANCELLED:
            lost = [one for one in rest if one.severity is Severity.CRITICAL]
            told, rest = [*lost, *told], [one for one in rest if one not in lost]
        return alarms_first([*told, *rest])
    return alarms_first([*others, *told])


def grade_by_records(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    """The console findings of a run with the severity that its ``reward.jsonl`` shows.

    Each ``NoRewardError`` is about one rollout; only the records have their number. Without a
    finding of that category in the records it is a warning.
    """
    recorded = {one.family: one.severity for one in reversed(numbers) if _is_recorded(one)}
    return [
        replace(one, severity=_milder(one.severity, recorded.get(one.family, Severity.WARNING)))
        if one.evidence and _OF_ONE_ROLLOUT in one.evidence[0].text
        else one
        for one in text
    ]


def _milder(*severities: Severity) -> Severity:
    return max(severities, key=lambda severity: severity.rank)


def _folded(
    told: Sequence[Finding], others: Sequence[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """The console findings with their consequences in the metrics below them; and the rest."""
    if not others:
        return list(told), []
    # numpy: a log without numbers is diagnosed without it.
    from engine.doctor.metrics.root_cause import may_follow

    roots, rest = [], list(others)
    for root in told:
        below = tuple(one for one in rest if may_follow(one, root))
        roots += _with([root], below)
        rest = [one for one in rest if one not in below]
    return roots, rest


def _ended_in(end: Finding, found: Sequence[Finding]) -> list[Finding]:
    """The end of a run, as a consequence of the first finding that explains it."""
    place = next((place for place, one in enumerate(found) if _explains(one, end)), 0)
    return [*found[:place], *_with(found[place : place + 1], (end,)), *found[place + 1 :]]


def _explains(sick: Finding, end: Finding) -> bool:
    """Whether a person stopped an unhealthy run, or NaN values ended it."""
    if sick.severity not in (Severity.CRITICAL, Severity.ERROR) or not end.evidence:
        return False
    said = end.evidence[0].text
    if end.family == _CANCELLED:
        return _BY_HAND.search(said) is not None
    return sick.family == "loss_nan" and _NOT_A_NUMBER.search(said) is not None


def alarms_first(found: Iterable[Finding]) -> list[Finding]:
    """Remarks (info) come last; otherwise the order is kept."""
    return sorted(found, key=lambda one: not one.severity.is_alarm)


def _with_records(text: Sequence[Finding], same: Sequence[Finding]) -> list[Finding]:
    """The console repeats a reward's error; its record has the class, the texts and the fix."""
    recorded = [one for one in same if _is_recorded(one)]
    if not text or not recorded or recorded[0].family != text[0].family:
        return []
    others = (text[0], *(one for one in same if one is not recorded[0]))
    return [*_with(recorded[:1], others), *text[1:]]


def _is_recorded(one: Finding) -> bool:
    return any(Path(seen.path or "").name == "reward.jsonl" for seen in one.evidence)


def _with(first: Sequence[Finding], folded: tuple[Finding, ...]) -> list[Finding]:
    """A root cause is at least as severe as its consequences."""
    return [
        replace(one, severity=_worst((one, *folded)), followed_by=(*one.followed_by, *folded))
        for one in first
    ]


def _worst(found: Iterable[Finding]) -> Severity:
    return min((one.severity for one in found), key=lambda severity: severity.rank)


def _alarms(found: Iterable[Finding]) -> bool:
    return any(one.severity.is_alarm for one in found)
