"""Draw a line chart with bands, marks and round ticks, in braille or ASCII.

From many points to one interval of rows per column of dots, then the picture around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grubrics_tui.drawing.axis import UNITS, Axis, Range, around, axis_of, steady, x_labels
from grubrics_tui.drawing.chart_data import Line, Marks, Plot, View
from grubrics_tui.drawing.picture import Picture
from grubrics_tui.drawing.prepare import inside, logarithmic, within
from grubrics_tui.drawing.spans import Row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""The dot that stands at [row from the top][column] of a braille character."""


@dataclass(frozen=True)
class Columns:
    """Points gathered by column: ``first`` and ``last`` may be NaN, which is a gap there.

    ``at`` are the columns that hold points, ascending; the others are arrays of the same length.
    """

    at: Ints
    first: Floats
    last: Floats
    low: Floats
    high: Floats

    def with_value(self, column: int, value: float) -> Columns:
        """With one more column, left or right of all others."""
        at = 0 if column == 0 else self.at.size
        parts = (
            np.insert(part, at, value) for part in (self.first, self.last, self.low, self.high)
        )
        return Columns(np.insert(self.at, at, column), *parts)


def gather(x: Floats, y: Floats, span: Range, width: int) -> Columns:
    """Every column's first, last, lowest and highest value. ``x`` is ascending.

    Costs one pass over the shown part of ``y`` in C: a spike among a million points keeps its dot.
    A line that goes on beyond ``span`` has a value at its edge as well.
    """
    filled, starts, ends = _cut(x, span, width)
    inside = y[: ends[-1]] if filled.size else np.empty(0)
    # An empty reduceat asks for values all the same.
    low = np.fmin.reduceat(inside, starts) if filled.size else inside
    high = np.fmax.reduceat(inside, starts) if filled.size else inside
    columns = Columns(filled, y[starts], y[ends - 1], low, high)
    return _to_edges(columns, x, y, span, width)


def _to_edges(columns: Columns, x: Floats, y: Floats, span: Range, width: int) -> Columns:
    """With the first and the last column too, where the line crosses the edge of ``span``."""
    for place, column in ((span.low, 0), (span.high, width - 1)):
        value = _crossing(x, y, place)
        if value is not None and column not in columns.at:
            columns = columns.with_value(column, value)
    return columns


def _crossing(x: Floats, y: Floats, place: float) -> float | None:
    """The value of the line between two points; None outside, at a gap and on a point."""
    after = int(np.searchsorted(x, place))
    if not 0 < after < x.size or x[after] == place:
        return None
    share = (place - x[after - 1]) / (x[after] - x[after - 1])
    value = float(y[after - 1] + share * (y[after] - y[after - 1]))
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
    solid = ~np.isnan(columns.low)
    at = columns.at[solid]
    low[at] = _places(columns.low[solid], y, height)
    high[at] = _places(columns.high[solid], y, height)
    _join(columns, y, low, high, height)
    return low, high


def braille(low: Ints, high: Ints, height: int) -> NDArray[np.uint8]:
    """Bits of the characters, ``[rows, columns]``, for columns of dots that fill ``low..high``."""
    levels = np.arange(height * 4 - 1, -1, -1)[:, None]
    filled = (levels >= low) & (levels <= high)
    cells = filled.reshape(height, 4, low.size // 2, 2)
    bits: NDArray[np.uint8] = np.einsum("rics,is->rc", cells, _BITS, dtype=np.uint8)
    return bits


def _places(values: Floats, y: Range, size: int) -> Ints:
    shares = (values - y.low) / (y.high - y.low)
    return np.rint(np.clip(shares, 0.0, 1.0) * (size - 1)).astype(np.int64)


def _join(columns: Columns, y: Range, low: Ints, high: Ints, height: int) -> None:
    """Connect neighboring columns by straight lines without holes, but never across a gap."""
    start, end = columns.last[:-1], columns.first[1:]
    whole = ~(np.isnan(start) | np.isnan(end))
    left, right = columns.at[:-1][whole], columns.at[1:][whole]
    if not left.size:
        return
    run = right - left
    begins = np.repeat(np.cumsum(run) - run, run)
    offset = np.arange(run.sum()) - begins
    share = offset / np.repeat(run, run)
    after = (offset + 1) / np.repeat(run, run)
    bottom = _places(start[whole], y, height).repeat(run)
    rise = _places(end[whole], y, height).repeat(run) - bottom
    here = bottom + np.rint(rise * share).astype(np.int64)
    there = bottom + np.rint(rise * after).astype(np.int64)
    column = left.repeat(run) + offset
    middle = (here + there) // 2
    rising = there >= here
    _widen(low, high, column, np.where(rising, here, middle + 1), np.where(rising, middle, here))
    _widen(
        low, high, column + 1, np.where(rising, middle + 1, there), np.where(rising, there, middle)
    )


def _widen(low: Ints, high: Ints, at: Ints, bottom: Ints, top: Ints) -> None:
    """Let columns reach from ``bottom`` to ``top`` as well, where there is anything between."""
    some = bottom <= top
    at, bottom, top = at[some], bottom[some], top[some]
    low[at] = np.minimum(low[at], bottom)
    high[at] = np.maximum(high[at], top)


def means(x: Floats, y: Floats, span: Range, width: int) -> Floats:
    """The mean of ``y`` in every column; between the points of sparse data, on their straight line.

    NaN where there is no value and inside a gap.
    """
    filled, starts, ends = _cut(x, span, width)
    mean = mean_of(y, starts, ends)
    found = _to_edges(Columns(filled, mean, mean, mean, mean), x, y, span, width)
    return _between(found.at, found.first, width)


def mean_of(y: Floats, starts: Ints, ends: Ints) -> Floats:
    """The mean of each stretch, NaN where it is empty; they follow one another without a hole."""
    inside = y[starts[0] : ends[-1]] if starts.size else np.empty(0)
    if not inside.size:
        return np.full(starts.size, np.nan)
    known = ~np.isnan(inside)
    counts = np.add.reduceat(known.astype(np.int64), starts - starts[0])
    sums = np.add.reduceat(np.where(known, inside, 0.0), starts - starts[0])
    mean: Floats = np.divide(sums, counts, out=np.full(counts.size, np.nan), where=counts > 0)
    return mean


def _between(at: Ints, values: Floats, width: int) -> Floats:
    """``values`` at columns ``at``, and on the lines between two that both have one."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(width, np.nan)
    columns = np.arange(width)
    drawn = np.interp(columns, at[known], values[known])
    left = np.searchsorted(at, columns, side="right") - 1
    right = np.searchsorted(at, columns, side="left")
    outside = (left < 0) | (right >= at.size)
    left, right = np.clip(left, 0, None), np.clip(right, None, at.size - 1)
    drawn[outside | ~known[left] | ~known[right]] = np.nan
    return drawn


LINE_GLYPHS = "*+xo#@%&"
"""What tells lines apart where there is no color, or no braille."""

_EIGHTHS = np.array([ord(char) for char in " ▁▂▃▄▅▆▇█"], np.uint32)
_BRAILLE = 0x2800
_ROOM_FOR_EVENTS = 6
BAND_COLUMNS = 100
"""About as many as a chart has: what the y range of a band is worked out from."""


@dataclass(frozen=True)
class Frame:
    """The area of a chart that data are drawn in: what it spans, and its size in cells."""

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
        """Rows in eighths of a cell from below; -1, which covers nothing, where no value is."""
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
    """The chart in ``height`` rows of ``width`` cells. Empty rows when there is no room or data.

    Every x of the plot is in units of the view's axis. ``y`` is a range to keep, of logarithms on
    a logarithmic axis; without one it follows what is shown.
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
    """What ``render`` gives, and the frame that the data are in; None where nothing is drawn."""
    shown = logarithmic(plot) if view.log_y else plot
    x = x_range(plot, view)
    if width < 12 or height < 3 or x is None or shown.is_empty:
        return [[] for _ in range(height)], None
    events = height >= _ROOM_FOR_EVENTS and _has_events(plot, x)
    rows = height - (2 if events else 1)
    axis = axis_of(y or _y_range(shown, view, x), rows, log=view.log_y)
    picture = Picture(width, height)
    frame = Frame(x, axis.span, width - axis.gutter, rows, ascii_only)
    if frame.width < 2:
        return picture.rows(), None
    body = _Body(picture, axis.gutter, frame)
    _draw_levels(body, axis)
    _draw_data(body, shown, view)
    if events:
        _draw_events(body, plot)
    _draw_x_axis(body, view)
    return picture.rows(), frame


def x_range(plot: Plot, view: View) -> Range | None:
    """The places shown; None without data."""
    extent = plot.extent()
    if extent is None:
        return None
    return view.shown(extent) if view.is_zoomed else steady(extent)


def y_range(plot: Plot, view: View) -> Range | None:
    """What ``render`` takes for the y axis on its own; None when nothing is drawn."""
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

    def column(self, place: float) -> int:
        """The column of the dot that stands at a place."""
        return int(self.columns(np.array([place]))[0])

    def columns(self, places: Floats) -> Ints:
        dots = self.frame.dots[0]
        shares = np.clip((places - self.x.low) / self.x.size, 0, 1)
        return np.rint(shares * (dots - 1)).astype(np.int64) // (dots // self.width)

    def row(self, value: float) -> int:
        """The row of the dot that stands for a value."""
        return int(self.rows(np.array([value]))[0])

    def rows(self, values: Floats) -> Ints:
        dots = self.frame.dots[1]
        shares = np.clip((values - self.y.low) / self.y.size, 0, 1)
        places = np.rint(shares * (dots - 1)).astype(np.int64)
        return self.height - 1 - places // (dots // self.height)


def _y_range(plot: Plot, view: View, x: Range) -> Range:
    return around(extremes(plot, view, x))


def extremes(plot: Plot, view: View, x: Range) -> list[float]:
    """The lowest and the highest value of everything that is drawn inside ``x``."""
    seen = [part for values in _shown(plot, view, x) if (part := _extent(values)) is not None]
    return [edge for part in seen for edge in part]


def _shown(plot: Plot, view: View, x: Range) -> Iterator[Floats]:
    for line in plot.lines:
        part, band = inside(line.x, x), line.band(view.band)
        yield line.y[part]
        if line.raw is not None:
            yield line.raw[part]
        if band is not None:
            # As they are drawn: a single wide one among thousands must not flatten the line.
            yield means(line.x, band.low, x, BAND_COLUMNS)
            yield means(line.x, band.high, x, BAND_COLUMNS)
    for marks in plot.marks:
        yield within(marks, x)


def _extent(values: Floats) -> tuple[float, float] | None:
    with np.errstate(invalid="ignore"):
        low, high = np.fmin.reduce(values, initial=np.nan), np.fmax.reduce(values, initial=np.nan)
    return None if np.isnan(low) else (float(low), float(high))


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
    # The first is the most important one: it lies on top.
    for number, line in reversed(list(enumerate(plot.lines))):
        _draw_line(body, line.x, line.y, line.ink, glyph_of(number))
    for marks in plot.marks:
        _draw_marks(body, marks)
    if view.cursor is not None:
        _draw_points(body, plot.lines, view.cursor)


def glyph_of(number: int) -> str:
    """The character that draws the line of this number where there is no braille."""
    return LINE_GLYPHS[number % len(LINE_GLYPHS)]


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
    body.char[from_below], body.ink[from_below] = _EIGHTHS[end[from_below]], ink
    body.char[to_above] = _EIGHTHS[start[to_above]]
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
    """The color that most of each cell has, kept as paper under a line."""
    filled = np.searchsorted(_EIGHTHS[1:], body.char, side="right")
    is_block = (body.char >= _EIGHTHS[1]) & (body.char <= _EIGHTHS[8])
    lower = is_block & (body.paper == 0) & (filled >= 4)
    upper = is_block & (body.paper != 0) & (filled < 5)
    return np.where(lower, body.ink, np.where(upper | ~is_block, body.paper, 0))


def _draw_marks(body: _Body, marks: Marks) -> None:
    """Each once per cell, however many stand there."""
    part = inside(marks.x, body.x)
    x, y = marks.x[part], marks.y[part]
    known = np.isfinite(y)
    columns = body.columns(x[known])
    rows = body.rows(y[known])
    body.paper[rows, columns] = _behind(body)[rows, columns]
    body.char[rows, columns] = ord(marks.ascii_glyph if body.ascii_only else marks.glyph)
    body.ink[rows, columns] = body.picture.color(marks.ink)


def _draw_cursor(body: _Body, place: float) -> None:
    """A line from top to bottom, behind the data."""
    if not body.x.low <= place <= body.x.high:
        return
    column = body.column(place)
    behind = _behind(body)[:, column]
    body.char[:, column] = ord("|" if body.ascii_only else "│")
    body.ink[:, column], body.paper[:, column] = body.picture.color("cursor"), behind


def _draw_points(body: _Body, lines: tuple[Line, ...], place: float) -> None:
    """Where the cursor meets each line."""
    if not body.x.low <= place <= body.x.high:
        return
    column = body.column(place)
    for number, line in reversed(list(enumerate(lines))):
        at, value = line.at(place)
        if value is not None and at is not None and body.column(at) == column:
            glyph = glyph_of(number) if body.ascii_only else "●"
            body.char[body.row(value), column] = ord(glyph)
            body.ink[body.row(value), column] = body.picture.color(line.ink)


def _has_events(plot: Plot, x: Range) -> bool:
    flags = any(flags.x[inside(flags.x, x)].size for flags in plot.flags)
    return flags or any(np.isnan(within(values, x)).any() for values in plot.drawn)


def _draw_events(body: _Body, plot: Plot) -> None:
    """A line below the body with a flag where something happened, a cross where a value is NaN."""
    picture, row = body.picture, body.height
    picture.write(row, body.gutter, ("-" if body.ascii_only else "─") * body.width, "rule")
    for flags in plot.flags:
        glyph = flags.kind.ascii_glyph if body.ascii_only else flags.kind.glyph
        _stamp(body, flags.x[inside(flags.x, body.x)], glyph, flags.kind.ink)
    for values in plot.drawn:
        part = inside(values.x, body.x)
        lost = values.x[part][np.isnan(values.y[part])]
        _stamp(body, lost, "x" if body.ascii_only else "×", "error")


def _stamp(body: _Body, places: Floats, glyph: str, role: str) -> None:
    columns = body.columns(places)
    body.picture.char[body.height, body.gutter + columns] = ord(glyph)
    body.picture.ink[body.height, body.gutter + columns] = body.picture.color(role)


def _draw_x_axis(body: _Body, view: View) -> None:
    last = body.picture.height - 1
    body.picture.write(last, 0, UNITS[view.axis].rjust(body.gutter - 1), "axis")
    for column, text in x_labels(body.x, view.axis, body.width):
        body.picture.write(last, body.gutter + column, text, "axis")
