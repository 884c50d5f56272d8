"""Draw a line chart with bands, marks and round ticks, in braille or ASCII.

From many points to one interval of rows per column of dots, then the picture around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.base.ticks import Axis, Range, around, axis_of, steady
from engine.run.history.columns import Floats, Ints
from engine.run.history.plot import Line, Marks, Plot, extremes, logarithmic
from grubrics_tui.drawing.axis import UNITS, gutter_of, x_labels
from grubrics_tui.drawing.picture import EIGHTHS, Picture
from grubrics_tui.drawing.prepare import inside, within
from grubrics_tui.drawing.spans import Row
from grubrics_tui.drawing.view import View

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""The bit of the dot at [row from the top][column] of a braille character."""


@dataclass(frozen=True)
class Columns:
    """Points gathered by column. NaN in ``first`` or ``last`` is a gap.

    ``at`` are the columns that hold points, ascending; the others are arrays of the same length.
    """

    at: Ints
    first: Floats
    last: Floats
    low: Floats
    high: Floats

    def with_value(self, column: int, value: float) -> Columns:
        """Add one column, left or right of all others."""
        index = 0 if column == 0 else self.at.size
        parts = (
            np.insert(part, index, value) for part in (self.first, self.last, self.low, self.high)
        )
        return Columns(np.insert(self.at, index, column), *parts)


def gather(x: Floats, y: Floats, span: Range, width: int) -> Columns:
    """Return the first, last, lowest and highest value of every column. ``x`` is ascending.

    Costs one pass over the shown part of ``y`` in C: a spike among a million points keeps its dot.
    A line that continues beyond ``span`` also has a value at its edge.
    """
    filled, starts, ends = _cut(x, span, width)
    shown = y[: ends[-1]] if filled.size else np.empty(0)
    # Without points in the span there is nothing to reduce.
    low = np.fmin.reduceat(shown, starts) if filled.size else shown
    high = np.fmax.reduceat(shown, starts) if filled.size else shown
    columns = Columns(filled, y[starts], y[ends - 1], low, high)
    return _to_edges(columns, x, y, span, width)


def _to_edges(columns: Columns, x: Floats, y: Floats, span: Range, width: int) -> Columns:
    """Add the first and the last column where the line crosses the edge of ``span``."""
    for edge, column in ((span.low, 0), (span.high, width - 1)):
        value = _crossing(x, y, edge)
        if value is not None and column not in columns.at:
            columns = columns.with_value(column, value)
    return columns


def _crossing(x: Floats, y: Floats, edge: float) -> float | None:
    """The value of the line between two points; None outside, at a gap and on a point."""
    right = int(np.searchsorted(x, edge))
    if not 0 < right < x.size or x[right] == edge:
        return None
    share = (edge - x[right - 1]) / (x[right] - x[right - 1])
    value = float(y[right - 1] + share * (y[right] - y[right - 1]))
    return None if np.isnan(value) else value


def edges_of(span: Range, width: int) -> Floats:
    """Where each of ``width`` columns begins, and where the last one ends."""
    return span.low + (np.arange(width + 1) - 0.5) / max(1, width - 1) * (span.high - span.low)


def _cut(x: Floats, span: Range, width: int) -> tuple[Ints, Ints, Ints]:
    """The columns that hold points, and where the points of each begin and end."""
    bounds = np.searchsorted(x, edges_of(span, width), side="left")
    filled = np.flatnonzero(bounds[1:] > bounds[:-1])
    return filled, bounds[:-1][filled], bounds[1:][filled]


def dots(columns: Columns, y: Range, width: int, height: int) -> tuple[Ints, Ints]:
    """Lowest and highest dot of every column, ``low > high`` where there is none; 0 is below."""
    low = np.full(width, height, np.int64)
    high = np.full(width, -1, np.int64)
    has_value = ~np.isnan(columns.low)
    filled = columns.at[has_value]
    low[filled] = _levels(columns.low[has_value], y, height)
    high[filled] = _levels(columns.high[has_value], y, height)
    _join(columns, y, low, high, height)
    return low, high


def braille(low: Ints, high: Ints, height: int) -> NDArray[np.uint8]:
    """Bits of the characters, ``[rows, columns]``, for columns of dots that fill ``low..high``."""
    levels = np.arange(height * 4 - 1, -1, -1)[:, None]
    filled = (levels >= low) & (levels <= high)
    cells = filled.reshape(height, 4, low.size // 2, 2)
    bits: NDArray[np.uint8] = np.einsum("rics,is->rc", cells, _BITS, dtype=np.uint8)
    return bits


def _levels(values: Floats, span: Range, size: int) -> Ints:
    """The place of each value among ``size`` rows or columns of dots; 0 is the lowest."""
    shares = (values - span.low) / span.size
    return np.rint(np.clip(shares, 0.0, 1.0) * (size - 1)).astype(np.int64)


def _join(columns: Columns, y: Range, low: Ints, high: Ints, height: int) -> None:
    """Connect neighboring columns by straight lines without holes, but never across a gap."""
    start, end = columns.last[:-1], columns.first[1:]
    is_connected = ~(np.isnan(start) | np.isnan(end))
    left, right = columns.at[:-1][is_connected], columns.at[1:][is_connected]
    if not left.size:
        return
    run = right - left
    begins = np.repeat(np.cumsum(run) - run, run)
    offset = np.arange(run.sum()) - begins
    share = offset / np.repeat(run, run)
    next_share = (offset + 1) / np.repeat(run, run)
    bottom = _levels(start[is_connected], y, height).repeat(run)
    rise = _levels(end[is_connected], y, height).repeat(run) - bottom
    level = bottom + np.rint(rise * share).astype(np.int64)
    next_level = bottom + np.rint(rise * next_share).astype(np.int64)
    column = left.repeat(run) + offset
    middle = (level + next_level) // 2
    rising = next_level >= level
    below, above = np.where(rising, level, middle + 1), np.where(rising, middle, level)
    _widen(low, high, column, below, above)
    below, above = np.where(rising, middle + 1, next_level), np.where(rising, next_level, middle)
    _widen(low, high, column + 1, below, above)


def _widen(low: Ints, high: Ints, columns: Ints, bottom: Ints, top: Ints) -> None:
    """Extend columns to ``bottom`` and ``top`` where ``bottom <= top``."""
    is_filled = bottom <= top
    columns, bottom, top = columns[is_filled], bottom[is_filled], top[is_filled]
    low[columns] = np.minimum(low[columns], bottom)
    high[columns] = np.maximum(high[columns], top)


def means(x: Floats, y: Floats, span: Range, width: int) -> Floats:
    """The mean of ``y`` in every column; between the points of sparse data, on their straight line.

    NaN where there is no value and inside a gap.
    """
    filled, starts, ends = _cut(x, span, width)
    mean = mean_of(y, starts, ends)
    columns = _to_edges(Columns(filled, mean, mean, mean, mean), x, y, span, width)
    return _interpolated(columns.at, columns.first, width)


def mean_of(y: Floats, starts: Ints, ends: Ints) -> Floats:
    """The mean of each stretch, NaN where it is empty; the stretches are adjacent."""
    shown = y[starts[0] : ends[-1]] if starts.size else np.empty(0)
    if not shown.size:
        return np.full(starts.size, np.nan)
    has_value = ~np.isnan(shown)
    counts = np.add.reduceat(has_value.astype(np.int64), starts - starts[0])
    sums = np.add.reduceat(np.where(has_value, shown, 0.0), starts - starts[0])
    mean: Floats = np.divide(sums, counts, out=np.full(counts.size, np.nan), where=counts > 0)
    return mean


def _interpolated(filled: Ints, values: Floats, width: int) -> Floats:
    """``values`` at the ``filled`` columns, and on the lines between two that both have one."""
    has_value = ~np.isnan(values)
    if not has_value.any():
        return np.full(width, np.nan)
    columns = np.arange(width)
    drawn = np.interp(columns, filled[has_value], values[has_value])
    left = np.searchsorted(filled, columns, side="right") - 1
    right = np.searchsorted(filled, columns, side="left")
    outside = (left < 0) | (right >= filled.size)
    left, right = np.clip(left, 0, None), np.clip(right, None, filled.size - 1)
    drawn[outside | ~has_value[left] | ~has_value[right]] = np.nan
    return drawn


LINE_GLYPHS = "*+xo#@%&"
"""The characters of the lines where there is no color, or no braille."""

MARK_INK = "mark"
_BRAILLE = 0x2800
_ROOM_FOR_EVENTS = 6
BAND_COLUMNS = 100
"""Columns for the y range of a band: about as many as a chart has."""


@dataclass(frozen=True)
class Frame:
    """The data area of a chart: its ranges, and its size in cells."""

    x: Range
    y: Range
    width: int
    height: int
    ascii_only: bool

    @property
    def dots(self) -> tuple[int, int]:
        """Columns and rows of dots."""
        return (self.width, self.height) if self.ascii_only else (self.width * 2, self.height * 4)

    def eighths(self, values: Floats) -> Ints:
        """Rows in eighths of a cell from below; -1, which covers nothing, for NaN."""
        shares = np.clip((values - self.y.low) / self.y.size, 0, 1)
        return np.where(np.isnan(values), -1, np.rint(shares * self.height * 8)).astype(np.int64)


def render(
    plot: Plot,
    view: View,
    width: int,
    height: int,
    *,
    y: Range | None = None,
    ascii_only: bool = False,
) -> list[Row]:
    """Draw the chart in ``height`` rows of ``width`` cells; empty rows without room or data.

    Every x of the plot is in units of the view's axis. ``y`` is a fixed range, of logarithms on
    a logarithmic axis; without one it follows the shown data.
    """
    return framed(plot, view, width, height, y=y, ascii_only=ascii_only)[0]


def framed(
    plot: Plot,
    view: View,
    width: int,
    height: int,
    *,
    y: Range | None = None,
    ascii_only: bool = False,
) -> tuple[list[Row], Frame | None]:
    """Return the rows of ``render`` and the frame of the data; None if nothing is drawn."""
    shown = logarithmic(plot) if view.log_y else plot
    x = x_range(plot, view)
    if width < 12 or height < 3 or x is None or shown.is_empty:
        return [[] for _ in range(height)], None
    events = height >= _ROOM_FOR_EVENTS and _has_events(plot, x)
    rows = height - (2 if events else 1)
    span = y or _y_range(shown, view, x)
    axis = axis_of(span, rows, log=view.log_y, are_seconds=plot.are_seconds)
    picture = Picture(width, height)
    gutter = gutter_of(axis)
    frame = Frame(x, axis.span, width - gutter, rows, ascii_only)
    if frame.width < 2:
        return picture.rows(), None
    body = _Body(picture, gutter, frame)
    _draw_levels(body, axis)
    _draw_data(body, shown, view)
    if events:
        _draw_events(body, plot)
    _draw_x_axis(body, view)
    return picture.rows(), frame


def x_range(plot: Plot, view: View) -> Range | None:
    """The shown range of x; None without data."""
    extent = plot.extent()
    if extent is None:
        return None
    return view.shown(extent) if view.is_zoomed else steady(extent)


def y_range(plot: Plot, view: View) -> Range | None:
    """The y range that ``render`` chooses by default; None if nothing is drawn."""
    shown = logarithmic(plot) if view.log_y else plot
    x = x_range(plot, view)
    return None if x is None or shown.is_empty else _y_range(shown, view, x)


class _Body:
    """The area inside the axes: the upper rows of the picture, right of the gutter."""

    def __init__(self, picture: Picture, gutter: int, frame: Frame) -> None:
        self.picture, self.gutter, self.frame = picture, gutter, frame
        self.x, self.y, self.ascii_only = frame.x, frame.y, frame.ascii_only
        self.width, self.height = frame.width, frame.height
        self.char = picture.char[: frame.height, gutter:]
        self.ink = picture.ink[: frame.height, gutter:]
        self.paper = picture.paper[: frame.height, gutter:]

    def column(self, x: float) -> int:
        return int(self.columns(np.array([x]))[0])

    def columns(self, x: Floats) -> Ints:
        """The columns of the cells at ``x``."""
        dots = self.frame.dots[0]
        return _levels(x, self.x, dots) // (dots // self.width)

    def row(self, value: float) -> int:
        return int(self.rows(np.array([value]))[0])

    def rows(self, values: Floats) -> Ints:
        """The rows of the cells for ``values``; 0 is at the top."""
        dots = self.frame.dots[1]
        return self.height - 1 - _levels(values, self.y, dots) // (dots // self.height)


def _y_range(plot: Plot, view: View, x: Range) -> Range:
    return around(extremes(shown_values(plot, view, x)))


def shown_values(plot: Plot, view: View, x: Range) -> Iterator[Floats]:
    """The values of everything that is drawn inside ``x``."""
    for line in plot.lines:
        part, band = inside(line.x, x), line.band(view.band)
        yield line.y[part]
        if line.raw is not None:
            yield line.raw[part]
        if band is not None:
            # Means, as drawn: one wide value among thousands must not flatten the line.
            yield means(line.x, band.low, x, BAND_COLUMNS)
            yield means(line.x, band.high, x, BAND_COLUMNS)
    for marks in plot.marks:
        yield within(marks, x)


def _draw_levels(body: _Body, axis: Axis) -> None:
    for level, label in zip(axis.levels, axis.labels, strict=True):
        row = body.row(level)
        body.picture.write(row, 0, label.rjust(body.gutter - 1), "axis")
        if not body.ascii_only:
            body.picture.write(row, body.gutter, "┈" * body.width, "grid")


def _draw_data(body: _Body, plot: Plot, view: View) -> None:
    for line in plot.lines:
        if (band := line.band(view.band)) is not None:
            _draw_band(body, line.x, band.low, band.high, line.ink.replace("series", "band"))
    for line in plot.lines:
        if line.raw is not None:
            _draw_line(body, line.x, line.raw, line.ink.replace("series", "faint"), ".")
    if view.cursor is not None:
        _draw_cursor(body, view.cursor)
    # The first line is the most important, and is drawn on top.
    for number, line in reversed(list(enumerate(plot.lines))):
        _draw_line(body, line.x, line.y, line.ink, glyph_of(number))
    for marks in plot.marks:
        _draw_marks(body, marks)
    if view.cursor is not None:
        _draw_points(body, plot.lines, view.cursor)


def glyph_of(number: int) -> str:
    """The character that draws the line of this number where there is no braille."""
    return LINE_GLYPHS[number % len(LINE_GLYPHS)]


def mark_glyph(*, ascii_only: bool) -> str:
    return "o" if ascii_only else "◆"


def _draw_band(body: _Body, x: Floats, low: Floats, high: Floats, role: str) -> None:
    """Color every column from the mean of ``low`` to the mean of ``high``, to an eighth."""
    bottom, top = (body.frame.eighths(means(x, edge, body.x, body.width)) for edge in (low, high))
    base = (np.arange(body.height - 1, -1, -1) * 8)[:, None]
    start, end = np.clip(bottom - base, 0, 8), np.clip(top - base, 0, 8)
    covered = end > start
    ink = body.picture.color(role)
    if body.ascii_only:
        body.char[covered], body.ink[covered] = ord(":"), ink
        return
    from_below, to_above = covered & (start == 0), covered & (start > 0) & (end == 8)
    body.char[from_below], body.ink[from_below] = EIGHTHS[end[from_below]], ink
    body.char[to_above] = EIGHTHS[start[to_above]]
    body.ink[to_above], body.paper[to_above] = body.picture.color("surface"), ink
    thin = covered & ~from_below & ~to_above
    body.char[thin], body.ink[thin] = ord("━"), ink


def _draw_line(body: _Body, x: Floats, y: Floats, role: str, glyph: str) -> None:
    wide, tall = body.frame.dots
    low, high = dots(gather(x, y, body.x, wide), body.y, wide, tall)
    if body.ascii_only:
        levels = np.arange(body.height - 1, -1, -1)[:, None]
        hit = (levels >= low) & (levels <= high)
        body.paper[hit] = 0
        body.char[hit], body.ink[hit] = ord(glyph), body.picture.color(role)
        return
    # Two dots thick: one alone is hard to see.
    high = np.where(high >= low, np.minimum(high + 1, tall - 1), high)
    bits = braille(low, high, body.height)
    hit = bits > 0
    body.paper[hit] = _behind(body)[hit]
    body.char[hit] = bits[hit].astype(np.uint32) + _BRAILLE
    body.ink[hit] = body.picture.color(role)


def _behind(body: _Body) -> NDArray[np.uint8]:
    """The color of most of each cell, which stays as background under a line."""
    filled = np.searchsorted(EIGHTHS[1:], body.char, side="right")
    is_block = (body.char >= EIGHTHS[1]) & (body.char <= EIGHTHS[8])
    lower = is_block & (body.paper == 0) & (filled >= 4)
    upper = is_block & (body.paper != 0) & (filled < 5)
    return np.where(lower, body.ink, np.where(upper | ~is_block, body.paper, 0))


def _draw_marks(body: _Body, marks: Marks) -> None:
    """Draw marks, at most one per cell."""
    part = inside(marks.x, body.x)
    x, y = marks.x[part], marks.y[part]
    is_finite = np.isfinite(y)
    columns = body.columns(x[is_finite])
    rows = body.rows(y[is_finite])
    body.paper[rows, columns] = _behind(body)[rows, columns]
    body.char[rows, columns] = ord(mark_glyph(ascii_only=body.ascii_only))
    body.ink[rows, columns] = body.picture.color(MARK_INK)


def _draw_cursor(body: _Body, cursor: float) -> None:
    """Draw a line from top to bottom, behind the data."""
    if not body.x.low <= cursor <= body.x.high:
        return
    column = body.column(cursor)
    behind = _behind(body)[:, column]
    body.char[:, column] = ord("|" if body.ascii_only else "│")
    body.ink[:, column], body.paper[:, column] = body.picture.color("cursor"), behind


def _draw_points(body: _Body, lines: tuple[Line, ...], cursor: float) -> None:
    """Draw a point where the cursor meets each line."""
    if not body.x.low <= cursor <= body.x.high:
        return
    column = body.column(cursor)
    for number, line in reversed(list(enumerate(lines))):
        x, value = line.at(cursor)
        if value is not None and x is not None and body.column(x) == column:
            glyph = glyph_of(number) if body.ascii_only else "●"
            body.char[body.row(value), column] = ord(glyph)
            body.ink[body.row(value), column] = body.picture.color(line.ink)


def _has_events(plot: Plot, x: Range) -> bool:
    has_flags = any(flags.x[inside(flags.x, x)].size for flags in plot.flags)
    return has_flags or any(values.gaps[inside(values.gaps, x)].size for values in plot.drawn)


def _draw_events(body: _Body, plot: Plot) -> None:
    """Draw a line below the body, with a flag for each event and a cross for each NaN."""
    picture, row = body.picture, body.height
    picture.write(row, body.gutter, ("-" if body.ascii_only else "─") * body.width, "rule")
    for flags in plot.flags:
        glyph = flags.kind.ascii_glyph if body.ascii_only else flags.kind.glyph
        _stamp(body, flags.x[inside(flags.x, body.x)], glyph, flags.kind.ink)
    for values in plot.drawn:
        gaps = values.gaps[inside(values.gaps, body.x)]
        _stamp(body, gaps, "x" if body.ascii_only else "×", "error")


def _stamp(body: _Body, x: Floats, glyph: str, role: str) -> None:
    columns = body.columns(x)
    body.picture.char[body.height, body.gutter + columns] = ord(glyph)
    body.picture.ink[body.height, body.gutter + columns] = body.picture.color(role)


def _draw_x_axis(body: _Body, view: View) -> None:
    last = body.picture.height - 1
    body.picture.write(last, 0, UNITS[view.axis].rjust(body.gutter - 1), "axis")
    for column, text in x_labels(body.x, view.axis, body.width):
        body.picture.write(last, body.gutter + column, text, "axis")
