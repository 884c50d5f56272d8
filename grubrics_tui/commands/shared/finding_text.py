"""Print findings and changes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.run.finding import format_evidence
from grubrics_tui.commands.shared.output import say
from grubrics_tui.text.plans import format_change

if TYPE_CHECKING:
    from engine.run.finding import Change, Finding, Fix


_MOST_EVIDENCE = 4


def finding_lines(findings: Sequence[Finding], choices: Sequence[Fix] = ()) -> Iterator[str]:
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
        yield from (line for fix in finding.fixes for line in _fix_lines(fix, choices))
        yield from (f"  consequence: {later.title}  [{later.id}]" for later in finding.followed_by)
        yield from (f"  not checked: {text}" for text in finding.not_checked)


def _fix_lines(fix: Fix, choices: Sequence[Fix]) -> Iterator[str]:
    effect = f" ({fix.effect})" if fix.effect else ""
    label = f"fix {choices.index(fix) + 1}" if fix in choices else "advice"
    yield f"  {label}: {fix.title}{effect}"
    for change in fix.changes:  # As they are typed: commands, overrides or variables.
        is_command = change.kind == "command"
        yield f"       {f'$ {change.after}' if is_command else f'{change.key}={change.after}'}"


def say_changes(title: str, changes: Sequence[Change]) -> None:
    """Print the changes of a config below a title."""
    say(title)
    for change in changes:
        say(f"  {format_change(change)}")
