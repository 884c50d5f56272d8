"""Findings as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from grubrics_tui.commands.shared.output import say
from grubrics_tui.drawing.changes import change_json
from grubrics_tui.drawing.changes import told as told_of

if TYPE_CHECKING:
    from engine.findings.finding import Change, Evidence, Finding, Remedy


_MOST_EVIDENCE = 4


def finding_json(finding: Finding, choices: Sequence[Remedy] = ()) -> dict[str, Any]:
    """A finding as programs read it, with all that is folded below it.

    Of its remedies those have a number that ``remedy --number`` takes.
    """
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "title": finding.title,
        "onset_step": finding.onset_step,
        "cause": finding.cause,
        "evidence": [_evidence_json(one) for one in finding.evidence],
        "remedies": [_remedy_json(one, choices) for one in finding.remedies],
        "confidence": finding.confidence,
        "not_checked": list(finding.not_checked),
        "followed_by": [finding_json(one) for one in finding.followed_by],
        "source": finding.source,
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "text": evidence.text,
        "path": evidence.path,
        "offset": evidence.offset,
        "step": evidence.step,
        "values": dict(evidence.values),
    }


def _remedy_json(remedy: Remedy, choices: Sequence[Remedy]) -> dict[str, Any]:
    return {
        "title": remedy.title,
        "effect": remedy.effect,
        "changes": [change_json(one) for one in remedy.changes],
        "number": choices.index(remedy) + 1 if remedy in choices else None,
    }


def finding_lines(findings: Sequence[Finding], choices: Sequence[Remedy] = ()) -> Iterator[str]:
    """The findings as a person reads them; remedies among the ``choices`` with their number."""
    for number, finding in enumerate(findings):
        if number:
            yield ""
        since = f" since {finding.onset}" if finding.onset else ""
        yield f"{str(finding.severity).upper()}{since}: {finding.title}  [{finding.id}]"
        yield f"  {finding.cause}"
        yield from (f"  seen: {_seen(one)}" for one in finding.evidence[:_MOST_EVIDENCE])
        yield from (line for remedy in finding.remedies for line in _remedy(remedy, choices))
        yield from (f"  then: {one.title}  [{one.id}]" for one in finding.followed_by)
        yield from (f"  not checked: {one}" for one in finding.not_checked)


def _seen(evidence: Evidence) -> str:
    line = evidence.values.get("line")
    place = f"{evidence.path}:{line}: " if evidence.path and line is not None else ""
    count = evidence.values.get("seen")
    times = f"  ({count} times)" if count else ""
    return f"{place}{evidence.text}{times}"


def _remedy(remedy: Remedy, choices: Sequence[Remedy]) -> Iterator[str]:
    effect = f" ({remedy.effect})" if remedy.effect else ""
    number = f" {choices.index(remedy) + 1}" if remedy in choices else ""
    yield f"  try{number}: {remedy.title}{effect}"
    for change in remedy.changes:
        yield f"       {_typed(change)}"


def _typed(change: Change) -> str:
    """As it is typed: a command, or a value of the recipe or the environment."""
    return f"$ {change.after}" if change.kind == "command" else f"{change.key}={change.after}"


def show_changes(title: str, changes: Sequence[Change]) -> None:
    say(title)
    for change in changes:
        say(f"  {told_of(change)}")
