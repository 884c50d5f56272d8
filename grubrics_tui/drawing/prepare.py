"""Turn a plot of steps into the one that is drawn: smoothed, on the view's x axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from engine.base.ticks import Range
from engine.run.history.columns import Column, Floats
from engine.run.history.plot import Band, Line, Plot, Values
from grubrics_tui.drawing.axis import XAxis, has_times, moments, places
from grubrics_tui.drawing.view import View

_NEGLIGIBLE = 1e-17


def ema(values: Floats, weight: float, total: float = 0.0, count: int = 0) -> Floats:
    """``s_n = w s_(n-1) + (1-w) y_n`` with ``s_0 = 0``, divided by ``1 - w^n``.

    That is how TensorBoard smooths (``vz_line_chart2``, ``resmoothDataset``), and W&B's
    "exponential moving average". A NaN stays one and is not counted. ``total`` and ``count`` go on
    from earlier values: the average before its division, and how many there were.
    """
    known = ~np.isnan(values)
    run = values[known] * (1 - weight)
    _accumulate(run, weight)
    number = np.arange(1, run.size + 1)
    run += total * weight**number
    smoothed = np.full(values.size, np.nan)
    smoothed[known] = run / (1 - weight ** (number + count))
    return smoothed


def _accumulate(values: Floats, weight: float) -> None:
    """Turn ``y_n`` into ``sum w^(n-k) y_k``: every pass doubles how far back the sums reach."""
    shift = 1
    while shift < values.size and weight**shift > _NEGLIGIBLE:
        values[shift:] += weight**shift * values[:-shift]
        shift *= 2


class Smoothed:
    """A column's average that grows with it: a new value costs one step, however many there are.

    A value that was rewritten, as a resumed run does, starts it anew.
    """

    def __init__(self, column: Column, weight: float) -> None:
        self._column, self._weight = column, weight
        self._restart()

    def values(self) -> Floats:
        """The average at each of the column's steps."""
        if self._rewrites != self._column.rewrites:
            self._restart()
        if self._size < len(self._column):
            self._extend(self._column.values[self._size :])
        return self._values[: self._size]

    def _restart(self) -> None:
        self._rewrites = self._column.rewrites
        self._values = np.empty(0)
        self._size = self._count = 0
        self._total = 0.0

    def _extend(self, fresh: Floats) -> None:
        smoothed = ema(fresh, self._weight, self._total, self._count)
        end = self._size + fresh.size
        if end > self._values.size:
            self._values = np.concatenate([self._values[: self._size], np.empty(max(end, 256))])
        self._values[self._size : end] = smoothed
        self._size = end
        known = smoothed[~np.isnan(smoothed)]
        self._count += known.size
        if known.size:
            self._total = float(known[-1]) * (1 - self._weight**self._count)


V = TypeVar("V", bound=Values)


class Smoother:
    """Smooths lines, and goes on where it stopped for those that are a column as it is."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._known: dict[Column, Smoothed] = {}

    def smooth(self, plot: Plot, weight: float) -> Plot:
        """Every line as its average, with what it was behind it; 0 leaves the plot as it is."""
        if weight != self._weight:
            self._weight, self._known = weight, {}
        if not weight:
            return plot
        lines = [replace(line, y=self._average(line), raw=line.y) for line in plot.lines]
        return replace(plot, lines=tuple(lines))

    def _average(self, line: Line) -> Floats:
        if line.source is None or not len(line.source):
            return ema(line.y, self._weight)
        if line.source not in self._known:
            self._known[line.source] = Smoothed(line.source, self._weight)
        return self._known[line.source].values()[: line.y.size]


def on_axis(plot: Plot, axis: XAxis) -> Plot:
    """The same with every x in the units of the axis."""

    def place(x: Floats, clock: Column | None) -> Floats:
        clock = clock or plot.clock
        return moments(x, clock, axis) if plot.timed else places(x, clock, axis)

    def move(values: V) -> V:
        return replace(values, x=place(values.x, values.clock))

    def moved(bands: tuple[Band, ...]) -> tuple[Band, ...]:
        return tuple(replace(band, facts=tuple(map(move, band.facts))) for band in bands)

    if axis == "step" and not plot.timed:
        return plot
    return replace(
        plot,
        lines=tuple(replace(move(line), bands=moved(line.bands)) for line in plot.lines),
        marks=tuple(move(marks) for marks in plot.marks),
        facts=tuple(move(fact) for fact in plot.facts),
        flags=tuple(replace(flags, x=places(flags.x, plot.clock, axis)) for flags in plot.flags),
    )


def view_of(plot: Plot, view: View) -> View:
    """The view as this plot takes it: one of moments turns steps into elapsed seconds."""
    if not plot.timed or view.axis != "step":
        return view
    clock = plot.clock
    if clock is None or not has_times(clock):
        return replace(view, axis="elapsed", window=None, tail=None, cursor=None)

    def seconds(step: float) -> float:
        return float(places(np.array([step]), clock, "elapsed")[0])

    last = float(clock.steps[-1])
    return replace(
        view,
        axis="elapsed",
        window=view.window and Range(seconds(view.window.low), seconds(view.window.high) + 1e-3),
        tail=None if view.tail is None else seconds(last) - seconds(last - view.tail) + 1e-3,
        cursor=None if view.cursor is None else seconds(view.cursor),
    )


def without_logarithm(plot: Plot, x: Range) -> int:
    """How many of the values inside ``x`` a logarithmic axis cannot show."""
    with np.errstate(invalid="ignore"):
        return sum(int((within(values, x) <= 0).sum()) for values in plot.drawn)


def within(values: Values, x: Range) -> Floats:
    """The part of the values that stands inside ``x``."""
    return values.y[inside(values.x, x)]


def inside(x: Floats, span: Range) -> slice[int, int, None]:
    first = int(np.searchsorted(x, span.low, side="left"))
    return slice(first, int(np.searchsorted(x, span.high, side="right")))
