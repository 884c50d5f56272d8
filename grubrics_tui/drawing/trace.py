"""From many points to the dots of a line: one interval of rows for every column of dots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grubrics_tui.drawing.scale import Range

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
    """Connect neighbouring columns by straight lines without holes, but never across a gap."""
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
