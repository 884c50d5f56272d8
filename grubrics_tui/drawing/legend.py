"""Draw the legend of a chart: key, name and value of each line, at the cursor or the newest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.run.history.plot import Line, Plot, Values
from grubrics_tui.drawing.axis import format_place
from grubrics_tui.drawing.plot import MARK_INK, glyph_of, mark_glyph, x_range
from grubrics_tui.drawing.prepare import without_logarithm
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.drawing.view import View

_GAP = 2


@dataclass(frozen=True)
class Look:
    """What the terminal can show. Without color, or in ASCII, lines differ in their characters."""

    ascii_only: bool = False
    colorless: bool = False

    def drawn_in_ascii(self, lines: int) -> bool:
        """Whether lines need different characters: a single braille line needs no color."""
        return self.ascii_only or (self.colorless and lines > 1)


def legend(plot: Plot, view: View, width: int, look: Look | None = None) -> list[Row]:
    """Draw rows of ``width`` cells. The plot is on the view's axis, without logarithms."""
    look = look or Look()
    entries = [
        *_cursor_entries(plot, view, look),
        *_values(plot, view, look),
        *_state(plot, view, look),
    ]
    return wrap(entries, width)


def wrap(entries: Sequence[Row], width: int) -> list[Row]:
    """Put entries side by side; rows break between entries."""
    rows: list[Row] = []
    for entry in entries:
        size = width_of(entry)
        if rows and width_of(rows[-1]) + _GAP + size <= width:
            rows[-1] += [Span(" " * _GAP), *entry]
        else:
            rows.append(list(entry))
    return rows


def entry(key: str, ink: str, label: str, value: str, tone: str = "foreground") -> Row:
    """Draw ``key label value`` without what is empty."""
    named = [Span(f"{key} ", ink)] if key else []
    labeled = [Span(f"{label} ", "quiet")] if label else []
    return [*named, *labeled, Span(value, tone)]


def _cursor_entries(plot: Plot, view: View, look: Look) -> Iterator[Row]:
    """Yield the position of the cursor, and the events there."""
    x = x_range(plot, view)
    if view.cursor is None or x is None:
        return
    name = "step " if view.axis == "step" else ""
    yield [Span(f"{name}{format_place(view.cursor, view.axis, x.size)}", "cursor", bold=True)]
    reach = x.size / 400
    for flags in plot.flags:
        for text in flags.near(view.cursor - reach, view.cursor + reach):
            glyph = flags.kind.ascii_glyph if look.ascii_only else flags.kind.glyph
            yield [Span(f"{glyph} {text}", flags.kind.ink)]


def _values(plot: Plot, view: View, look: Look) -> Iterator[Row]:
    # Before the first step only a validation has a value.
    newest = _newest(plot.lines) if _newest(plot.lines) is not None else _newest(plot.marks)
    x = newest if view.cursor is None else view.cursor
    shapes = look.drawn_in_ascii(len(plot.lines))
    for number, line in enumerate(plot.lines):
        key = glyph_of(number) if shapes else "━"
        yield entry(key, line.ink, line.label, _reading(line, view, x, line.x.size > 0))
        yield from _band_facts(line, view, x, shapes)
    for marks in plot.marks:
        key = mark_glyph(ascii_only=shapes)
        yield entry(key, MARK_INK, marks.label, _reading(marks, view, x, True))
    for fact in plot.facts:
        value = _found(fact, x)[1]
        if value or not fact.tone:
            yield entry("", "", fact.label, fact.write(value), fact.tone or "foreground")


def _newest(drawn: Sequence[Values]) -> float | None:
    return max((float(values.x[-1]) for values in drawn if values.x.size), default=None)


def _band_facts(line: Line, view: View, x: float | None, shapes: bool) -> Iterator[Row]:
    band = line.band(view.band)
    ink = line.ink.replace("series", "band")
    for fact in band.facts if band is not None else ():
        yield entry(":" if shapes else "■", ink, fact.label, _reading(fact, view, x, False))


def _reading(values: Values, view: View, x: float | None, dated: bool) -> str:
    """Format the value, with its step if that is not ``place``."""
    found_x, value = _found(values, x)
    text = values.write(value)
    if dated and view.axis == "step" and found_x is not None and found_x != x:
        return f"{text} at {found_x:.0f}"
    return text


def _found(values: Values, place: float | None) -> tuple[float | None, float | None]:
    return (None, None) if place is None else values.at(place)


def _state(plot: Plot, view: View, look: Look) -> Iterator[Row]:
    """Yield what differs from plain data: smoothing, logarithm, locked range, zoom."""
    x = x_range(plot, view)
    if view.smoothing and plot.lines:
        yield [Span(f"smoothed {view.smoothing:g}", "quiet")]
    if view.log_y and x is not None:
        lost = without_logarithm(plot, x)
        sign = "<=" if look.ascii_only else "≤"
        yield [Span(f"log, {lost} {sign} 0 hidden" if lost else "log", "quiet")]
    if view.locked:
        yield [Span("y locked", "quiet")]
    if view.is_zoomed:
        followed = view.tail is not None and view.axis == "step"
        yield [Span(f"last {view.tail:.0f} steps" if followed else "zoomed", "quiet")]
