"""Draw findings: the list, one finding with evidence and fixes, and what a fix changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from engine.base.quantities import format_number
from engine.run.finding import Change, Evidence, Finding, Fix, Severity
from grubrics_tui.drawing.spans import Row, Span, clipped, width_of, wrapped
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    pass


LOOKS = {
    Severity.CRITICAL: ("■", "error"),
    Severity.ERROR: ("✗", "error"),
    Severity.WARNING: ("!", "warning"),
    Severity.INFO: ("·", "quiet"),
}
"""Shape and color of each severity."""

_INDENT = 4
_LINE = "line"
_LONGEST_VALUE = 60
_MARKS = ".,;:()'\""


def list_row(finding: Finding, width: int, *, chosen: bool) -> Row:
    """Draw a finding of the list: severity, title, consequences, onset."""
    paper = "line" if chosen else ""
    shape, ink = LOOKS[finding.severity]
    since = f" {finding.onset}" if finding.onset else ""
    folded = f" +{len(finding.followed_by)}" if finding.followed_by else ""
    tail = f"{folded}{since} "
    pointer = "▌" if chosen else " "
    head: Row = [
        Span(pointer, "primary", paper, chosen),
        Span(f"{shape} ", ink, paper, True),
        Span(clipped(clean_text(finding.title), max(0, width - len(tail) - 4)), "", paper, chosen),
    ]
    room = max(0, width - width_of(head) - len(tail))
    return [*head, Span(" " * room, "", paper), Span(tail, "quiet", paper)]


def detail(finding: Finding, width: int, choices: Sequence[Fix] = ()) -> list[Row]:
    """Draw a finding: title, facts, cause, evidence, fixes, consequences, what was not checked.

    A fix among the ``choices`` has its number there, counted from 1.
    """
    shape, ink = LOOKS[finding.severity]
    rows = wrapped([Span(f"{shape} {clean_text(finding.title)}", ink, bold=True)], width)
    onset = f"   since {finding.onset}" if finding.onset else ""
    sure = "" if finding.confidence >= 1 else f"   {finding.confidence:.0%} sure"
    rows += wrapped([Span(f"{finding.severity}   {finding.id}{onset}{sure}", "quiet")], width)
    rows += [[], *wrapped([Span(clean_text(finding.cause))], width)]
    evidence = [_evidence_rows(item, width, finding.counted) for item in finding.evidence]
    fixes = [_fix_rows(fix, choices, width) for fix in finding.fixes]
    consequences = [_consequence_rows(later, width) for later in finding.followed_by]
    unchecked = [
        _indented([Span(clean_text(text), "quiet")], width) for text in finding.not_checked
    ]
    for heading, blocks in (
        ("Evidence", evidence),
        ("Fixes", fixes),
        ("Consequences", consequences),
        ("Not checked", unchecked),
    ):
        if blocks:
            rows += [[], [Span(heading, "primary", bold=True)]]
            rows += [row for block in blocks for row in block]
    if finding.source:
        rows += [[], *wrapped([Span(f"source: {clean_text(finding.source)}", "quiet")], width)]
    return rows


def _evidence_rows(evidence: Evidence, width: int, counted: str) -> list[Row]:
    rows = _indented([Span(clean_text(evidence.text))], width)
    values = "   ".join(
        f"{clean_text(name)} {_value(value)}"
        for name, value in evidence.values.items()
        if _is_news(name, value, evidence.text)
    )
    if values:
        rows += _indented([Span(values, "accent")], width)
    if location := where(evidence, counted):
        rows += _indented([Span(location, "quiet")], width)
    return rows


def _is_news(name: str, value: object, text: str) -> bool:
    """Whether a value is missing in the text, which already contains most numbers."""
    if name == _LINE or value is None:
        return False
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    forms = {_value(value), *((f"{value:.3g}", f"{value:,.0f}") if numeric else ())}
    words = f" {' '.join(word.strip(_MARKS) for word in text.replace('=', ' ').split())} "
    return not any(f" {form} " in words for form in forms)


def where(evidence: Evidence, counted: str) -> str:
    """Format a location: ``attempt_1/console.log line 165; step 3``; empty if there is none."""
    is_said = evidence.step is None or f"{counted} {evidence.step}" in evidence.text
    parts = [] if is_said else [f"{counted} {evidence.step}"]
    if evidence.path is not None and evidence.offset is not None:
        line = evidence.values.get(_LINE)
        position = f"byte {evidence.offset}" if line is None else f"line {line}"
        # The folder and the name are enough: the run is known.
        short = "/".join(PurePath(evidence.path).parts[-2:])
        parts.insert(0, f"{clean_text(short)} {position}")
    return "; ".join(parts)


def _fix_rows(fix: Fix, choices: Sequence[Fix], width: int) -> list[Row]:
    title = clean_text(fix.title)
    number = choices.index(fix) + 1 if fix in choices else "·"
    lead = Span(f"{number:>2}  ", "accent", bold=True)
    rows = [[lead, *row] if not n else [Span(" " * _INDENT), *row]
            for n, row in enumerate(wrapped([Span(title)], width - _INDENT))]  # fmt: skip
    for change in fix.changes:
        rows += _indented(_change(change), width)
    return rows + (_indented([Span(clean_text(fix.effect), "quiet")], width) if fix.effect else [])


def _change(change: Change) -> Row:
    if change.kind == "command":
        return [Span("$ ", "quiet"), Span(clean_text(str(change.after)))]
    before = [] if change.before is None else [Span(f"{_value(change.before)} → ", "quiet")]
    return [Span(f"{change.key}  ", "quiet"), *before, Span(_value(change.after), "success")]


def _consequence_rows(finding: Finding, width: int) -> list[Row]:
    """Draw title, onset and one line of evidence, or a line of each rollout."""
    since = f", since {finding.onset}" if finding.onset else ""
    rows = _indented([Span(clean_text(f"{finding.title}{since}"))], width)
    texts = [clean_text(evidence.text) for evidence in finding.evidence if evidence.text]
    for text in texts if finding.rollouts else texts[:1]:
        rows += _indented([Span(clipped(text, width - _INDENT), "quiet")], width)
    return rows


def _indented(spans: Sequence[Span], width: int) -> list[Row]:
    return [[Span(" " * _INDENT), *row] for row in wrapped(spans, width - _INDENT)]


def _value(value: object) -> str:
    if isinstance(value, float):
        return format_number(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return clipped(clean_text(text), _LONGEST_VALUE)
