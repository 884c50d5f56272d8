"""Print findings and changes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.findings.finding import format_evidence
from grubrics_tui.commands.shared.output import say
from grubrics_tui.text.plans import format_change

if TYPE_CHECKING:
    from engine.findings.finding import Change, Finding, Remedy


_MOST_EVIDENCE = 4


def finding_lines(findings: Sequence[Finding], choices: Sequence[Remedy] = ()) -> Iterator[str]:
    """Yield the lines of the findings; a fix among the ``choices`` has its number."""
    for number, finding in enumerate(findings):
        if number:
            yield ""
        since = f" since {finding.onset}" if finding.onset else ""
        yield f"{str(finding.severity).upper()}{since}: {finding.title}  [{finding.id}]"
        yield f"  {finding.cause}"
        yield from (
            f"  evidence: {format_evidence(evidence)}"
            for evidence in finding.evidence[:_MOST_EVIDENCE]
        )
        yield from (line for remedy in finding.remedies for line in _remedy_lines(remedy, choices))
        yield from (f"  consequence: {later.title}  [{later.id}]" for later in finding.followed_by)
        yield from (f"  not checked: {text}" for text in finding.not_checked)


def _remedy_lines(remedy: Remedy, choices: Sequence[Remedy]) -> Iterator[str]:
    effect = f" ({remedy.effect})" if remedy.effect else ""
    label = f"fix {choices.index(remedy) + 1}" if remedy in choices else "advice"
    yield f"  {label}: {remedy.title}{effect}"
    for change in remedy.changes:  # As they are typed: commands, overrides or variables.
        is_command = change.kind == "command"
        yield f"       {f'$ {change.after}' if is_command else f'{change.key}={change.after}'}"


def say_changes(title: str, changes: Sequence[Change]) -> None:
    """Print the changes of a config below a title."""
    say(title)
    for change in changes:
        say(f"  {format_change(change)}")
