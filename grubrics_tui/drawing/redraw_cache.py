"""Tell whether a drawn chart is still right after steps were added to its data.

In a long run a column of dots stands for hundreds of steps, so most new steps change no dot: then
the picture is reused, and only the numbers in the legend are written again.
"""

from __future__ import annotations

import numpy as np

from engine.base.ticks import Range
from engine.run.history.columns import Floats
from engine.run.history.plot import Plot, Values, extremes
from grubrics_tui.drawing.plot import BAND_COLUMNS, Frame, edges_of, mean_of, shown_values, x_range
from grubrics_tui.drawing.view import View


class RedrawCheck:
    """What must hold of the steps that were added for the picture of ``plot`` to stay as it is.

    Only for data that grew at their end, an axis that is not logarithmic, and a view of everything
    without a cursor. ``y_follows`` says that the y range was made for the values, not given.
    """

    def __init__(self, plot: Plot, view: View, frame: Frame, *, y_follows: bool) -> None:
        self._view, self._frame = view, frame
        self._marks = _marks(plot)
        self._lines = [_Dots(x, y, frame) for x, y in _lines(plot)]
        bands = _bands(plot, view)
        seen = extremes(shown_values(plot, view, frame.x)) if bands and y_follows else []
        room = Range(min(seen), max(seen)) if seen else None
        self._bands = [_Edge(x, y, frame, room) for x, y in bands]

    def holds(self, plot: Plot) -> bool:
        """Whether the picture of ``plot`` is that of the plot before."""
        lines, bands = _lines(plot), _bands(plot, self._view)
        return (
            x_range(plot, self._view) == self._frame.x
            and _marks(plot) == self._marks
            and (len(lines), len(bands)) == (len(self._lines), len(self._bands))
            and all(dots.hold(x, y) for dots, (x, y) in zip(self._lines, lines, strict=True))
            and all(edge.holds(x, y) for edge, (x, y) in zip(self._bands, bands, strict=True))
        )


def can_be_reused(view: View) -> bool:
    """Whether new steps leave the rest of a picture as it is."""
    return not (view.is_zoomed or view.log_y or view.table or view.cursor is not None)


class _Dots:
    """A line's last column of dots: a value between its lowest and its highest one adds no dot."""

    def __init__(self, x: Floats, y: Floats, frame: Frame) -> None:
        self._size = x.size
        self._column = _Column(x, frame.x, frame.dots[0])
        inside = y[self._column.start :]
        self._low = float(np.fmin.reduce(inside, initial=np.nan))
        self._high = float(np.fmax.reduce(inside, initial=np.nan))

    def hold(self, x: Floats, y: Floats) -> bool:
        if x.size == self._size:
            return True
        fresh = y[self._size :].tolist()
        return self._column.takes(x) and all(self._low <= v <= self._high for v in fresh)


class _Edge:
    """One edge of a band: the mean of its last cell, which must not move by an eighth.

    ``room`` are the extremes of the chart: a mean that is one of them decides about the y range.
    """

    def __init__(self, x: Floats, y: Floats, frame: Frame, room: Range | None) -> None:
        self._frame, self._room = frame, room
        self._cell = _Column(x, frame.x, frame.width)
        self._share = _Column(x, frame.x, BAND_COLUMNS)
        self._place = self._eighth(y)
        self._is_free = self._cell.has_neighbor and self._is_inside(y)

    def holds(self, x: Floats, y: Floats) -> bool:
        return (
            self._is_free
            and self._cell.takes(x)
            and self._share.takes(x)
            and self._eighth(y) == self._place
            and self._is_inside(y)
        )

    def _eighth(self, y: Floats) -> int:
        return int(self._frame.eighths(_mean(y[self._cell.start :]))[0])

    def _is_inside(self, y: Floats) -> bool:
        if self._room is None:
            return True
        mean = float(_mean(y[self._share.start :])[0])
        return self._room.low < mean < self._room.high


class _Column:
    """The last of the columns that hold points, when ``span`` is cut into ``count``."""

    def __init__(self, x: Floats, span: Range, count: int) -> None:
        edges = edges_of(span, count)
        number = int(np.searchsorted(edges, x[-1], side="right")) - 1 if x.size else 0
        self._end = float(edges[min(number + 1, count)])
        self.start = int(np.searchsorted(x, edges[number], side="left"))
        self.has_neighbor = bool(
            number == 0 or (self.start and x[self.start - 1] >= edges[number - 1])
        )

    def takes(self, x: Floats) -> bool:
        """Whether the points end in it."""
        return bool(x.size and x[-1] < self._end)


def _mean(values: Floats) -> Floats:
    return mean_of(values, np.array([0]), np.array([values.size]))


def _lines(plot: Plot) -> list[tuple[Floats, Floats]]:
    smooth = [(line.x, line.y) for line in plot.lines]
    return smooth + [(line.x, line.raw) for line in plot.lines if line.raw is not None]


def _bands(plot: Plot, view: View) -> list[tuple[Floats, Floats]]:
    found = [(line.x, line.band(view.band)) for line in plot.lines]
    return [(x, edge) for x, band in found if band is not None for edge in (band.low, band.high)]


def _marks(plot: Plot) -> list[object]:
    def size(values: Values) -> int:
        return values.x.size

    flags = [(flags.kind, flags.x.size) for flags in plot.flags]
    return [*map(size, plot.marks), *flags]
