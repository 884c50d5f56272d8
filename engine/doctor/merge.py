"""Merges the findings of the console with those of metrics and reward records: root cause first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.run.finding import Finding, Severity, flattened
from engine.run.fixes import RESPONSE

_NAMES_A_CAUSE = 0.4
"""From this confidence on, a console finding comes before findings in the metrics."""
_TOO_LONG = "context_length_exceeded"
_CANCELLED = "job_cancelled_or_interrupted"
_BY_HAND = re.compile(r"\^C|KeyboardInterrupt|Ctrl-?C|by (?:the )?user\b", re.IGNORECASE)
_OF_ONE_ROLLOUT = "NoRewardError: "
_NOT_A_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)


def merge_findings(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    """Return the findings of the console (``text``) and of metrics and records (``numbers``).

    The root cause comes first, and each fault is listed once. A cancelled job may be unhealthy as
    well: critical findings in the metrics come before the cancellation. Longer responses are no fix
    where the context overflows already.
    """
    findings = _merge(text, numbers)
    is_too_long = any(one.category == _TOO_LONG for one in flattened(findings))
    return list(map(_without_longer_responses, findings)) if is_too_long else findings


def _without_longer_responses(finding: Finding) -> Finding:
    return replace(
        finding,
        fixes=tuple(
            fix
            for fix in finding.fixes
            if RESPONSE not in (fix.key, *(change.key for change in fix.changes))
        ),
        followed_by=tuple(map(_without_longer_responses, finding.followed_by)),
    )


def _merge(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    if text and _find_explanation(text[0], numbers) is not None:
        findings = _merge(text[1:], numbers)
        index = _find_explanation(text[0], findings) or 0
        findings[index] = findings[index].with_consequences([text[0]])
        return findings
    categories = {finding.category for finding in text}
    same = [finding for finding in numbers if finding.category in categories]
    others = [finding for finding in numbers if finding.category not in categories]
    console = _merge_same(text, same)
    if not console:
        return alerts_first(others)
    has_alerts = any(finding.severity.is_alert for finding in others)
    if console[0].confidence < _NAMES_A_CAUSE and has_alerts:
        return alerts_first([*others, *console])
    roots, rest = _fold_consequences(console, others)
    if roots[0].category == _CANCELLED:
        critical = [finding for finding in rest if finding.severity is Severity.CRITICAL]
        rest = [finding for finding in rest if finding not in critical]
        roots = [*critical, *roots]
    return alerts_first([*roots, *rest])


def alerts_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings of severity ``info`` to the end, and keep the order otherwise."""
    return sorted(findings, key=lambda finding: not finding.severity.is_alert)


def grade_by_records(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    """Give console findings about single rollouts the severity that ``reward.jsonl`` shows.

    Each ``NoRewardError`` is about one rollout; only the records show how many there are. Without a
    finding of that category in the records it is a warning.
    """
    recorded = {
        finding.category: finding.severity for finding in reversed(numbers) if _is_recorded(finding)
    }

    def grade(finding: Finding) -> Finding:
        if not finding.evidence or _OF_ONE_ROLLOUT not in finding.evidence[0].text:
            return finding
        severities = finding.severity, recorded.get(finding.category, Severity.WARNING)
        return replace(finding, severity=max(severities, key=lambda severity: severity.rank))

    return [grade(finding) for finding in text]


def _find_explanation(end: Finding, findings: Sequence[Finding]) -> int | None:
    """Return the index of the finding for which a person stopped the run, of NaN values that ended
    it, or of a graver finding that the end follows from."""
    if not findings:
        return None
    # Imports numpy, which the diagnosis of a log without numbers does not need.
    from engine.doctor.metrics.root_cause import may_follow

    quote = end.evidence[0].text if end.evidence else ""
    is_by_hand = end.category == _CANCELLED and _BY_HAND.search(quote) is not None
    is_by_nan = end.category != _CANCELLED and _NOT_A_NUMBER.search(quote) is not None
    for index, finding in enumerate(findings):
        is_grave = finding.severity in (Severity.CRITICAL, Severity.ERROR)
        values = (finding, *finding.followed_by)
        is_nan = is_by_nan and any(value.category == "loss_nan" for value in values)
        is_cause = finding.severity.rank < end.severity.rank and may_follow(end, finding)
        if is_nan or (is_grave and (is_by_hand or is_cause)):
            return index
    return None


def _merge_same(text: Sequence[Finding], same: Sequence[Finding]) -> list[Finding]:
    """Return the console findings with those of the same categories below the first one.

    The console repeats a reward's error. Its record has the error class, the texts and the fix, so
    it takes the first place.
    """
    if not text:
        return []
    recorded = next((finding for finding in same if _is_recorded(finding)), None)
    if recorded is None or recorded.category != text[0].category:
        return [text[0].with_consequences(same), *text[1:]]
    others = [finding for finding in same if finding is not recorded]
    return [recorded.with_consequences([text[0], *others]), *text[1:]]


def _is_recorded(finding: Finding) -> bool:
    return any(Path(evidence.path or "").name == "reward.jsonl" for evidence in finding.evidence)


def _fold_consequences(
    console: Sequence[Finding], others: Sequence[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """Return the console findings with their consequences in the metrics, and the others."""
    if not others:
        return list(console), []
    # Imports numpy, which the diagnosis of a log without numbers does not need.
    from engine.doctor.metrics.root_cause import may_follow

    roots, rest = [], list(others)
    for root in console:
        consequences = [finding for finding in rest if may_follow(finding, root)]
        rest = [finding for finding in rest if finding not in consequences]
        roots.append(root.with_consequences(consequences))
    return roots, rest
