"""Findings as pictures: the list, and one of them with its evidence and what would cure it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.drawing.wrap import clipped, wrapped
from grubrics_tui.text.terminal_text import clean_text

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
    """One finding of the list: how bad, what, since when."""
    paper = "panel" if chosen else ""
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


def detail(finding: Finding, width: int, choices: Sequence[Remedy] = ()) -> list[Row]:
    """Everything about one finding, in the order in which a person asks.

    Remedies that are among the ``choices`` have their number there, counted from 1.
    """
    shape, ink = LOOKS[finding.severity]
    rows = wrapped([Span(f"{shape} {clean_text(finding.title)}", ink, bold=True)], width)
    rows += wrapped([Span(_facts(finding), "quiet")], width)
    rows += [[], *wrapped([Span(clean_text(finding.cause))], width)]
    seen = (_evidence(one, width, finding.counted) for one in finding.evidence)
    rows += _section("evidence", seen)
    rows += _section("remedies", (_remedy(one, choices, width) for one in finding.remedies))
    rows += _section(
        "what followed from it", (_followed(one, width) for one in finding.followed_by)
    )
    rows += _section("not checked", (_note(text, width) for text in finding.not_checked))
    if finding.source:
        rows += [[], *wrapped([Span(f"source: {clean_text(finding.source)}", "quiet")], width)]
    return rows


def _facts(finding: Finding) -> str:
    since = f"   since {finding.onset}" if finding.onset else ""
    sure = "" if finding.confidence >= 1 else f"   {finding.confidence:.0%} sure"
    return f"{finding.severity}   {finding.id}{since}{sure}"


def _section(title: str, blocks: Iterable[list[Row]]) -> Iterator[Row]:
    found = list(blocks)
    if found:
        yield []
        yield [Span(title, "primary", bold=True)]
    for block in found:
        yield from block


def _evidence(one: Evidence, width: int, counted: str) -> list[Row]:
    told = {name: value for name, value in one.values.items() if _is_news(name, value, one.text)}
    values = "   ".join(f"{clean_text(name)} {_value(value)}" for name, value in told.items())
    rows = _indented([Span(clean_text(one.text))], width)
    rows += _indented([Span(values, "accent")], width) if values else []
    place = where(one, counted)
    return rows + (_indented([Span(place, "quiet")], width) if place else [])


def _is_news(name: str, value: object, text: str) -> bool:
    """Whether a value says more than the text does, in which most numbers stand already."""
    if name == _LINE:
        return False
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    forms = {_value(value), *((f"{value:.3g}", f"{value:,.0f}") if numeric else ())}
    words = f" {' '.join(word.strip(_MARKS) for word in text.replace('=', ' ').split())} "
    return not any(f" {form} " in words for form in forms)


def where(one: Evidence, counted: str) -> str:
    """``attempt_1/console.log line 165; step 3``. What stands in no one place has no place."""
    is_said = one.step is None or f"{counted} {one.step}" in one.text
    parts = [] if is_said else [f"{counted} {one.step}"]
    if one.path is not None and one.offset is not None:
        line = one.values.get(_LINE)
        place = f"byte {one.offset}" if line is None else f"line {line}"
        parts.insert(0, f"{clean_text(_short(one.path))} {place}")
    return "; ".join(parts)


def _short(path: str) -> str:
    """A file and the folder it is in: which run it belongs to is known."""
    return "/".join(PurePath(path).parts[-2:])


def _remedy(one: Remedy, choices: Sequence[Remedy], width: int) -> list[Row]:
    title = clean_text(one.title)
    number = choices.index(one) + 1 if one in choices else "·"
    lead = Span(f"{number:>2}  ", "accent", bold=True)
    rows = [[lead, *row] if not n else [Span(" " * _INDENT), *row]
            for n, row in enumerate(wrapped([Span(title)], width - _INDENT))]  # fmt: skip
    for change in one.changes:
        rows += _indented(_change(change), width)
    return rows + (_indented([Span(clean_text(one.effect), "quiet")], width) if one.effect else [])


def _change(change: Change) -> Row:
    if change.kind == "command":
        return [Span("$ ", "quiet"), Span(clean_text(str(change.after)))]
    before = [] if change.before is None else [Span(f"{_value(change.before)} → ", "quiet")]
    return [Span(f"{change.key}  ", "quiet"), *before, Span(_value(change.after), "success")]


def _followed(one: Finding, width: int) -> list[Row]:
    """What it is and since when, and one line of what shows it: it is no finding of its own."""
    since = f", since {one.onset}" if one.onset else ""
    rows = _indented([Span(clean_text(f"{one.title}{since}"))], width)
    for seen in [clean_text(evidence.text) for evidence in one.evidence if evidence.text][:1]:
        rows += _indented([Span(clipped(seen, width - _INDENT), "quiet")], width)
    return rows


def _note(text: str, width: int) -> list[Row]:
    return _indented([Span(clean_text(text), "quiet")], width)


def _indented(spans: Sequence[Span], width: int) -> list[Row]:
    return [[Span(" " * _INDENT), *row] for row in wrapped(spans, width - _INDENT)]


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return clipped(clean_text(text), _LONGEST_VALUE)
