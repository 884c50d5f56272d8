"""From a plot of steps to the one that is drawn: smoothed, on the view's x axis, logarithmic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from engine.history.columns import Column, Floats
from grubrics_tui.drawing.scale import Range
from grubrics_tui.drawing.smooth import Smoothed, ema
from grubrics_tui.drawing.timeline import has_times, moments, places
from grubrics_tui.drawing.values import Band, Line, Plot, Values
from grubrics_tui.drawing.view import View, XAxis

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

    if axis == "step" and not plot.timed:
        return plot
    return replace(
        plot,
        lines=tuple(replace(move(line), bands=_moved(line.bands, move)) for line in plot.lines),
        marks=tuple(move(marks) for marks in plot.marks),
        facts=tuple(move(fact) for fact in plot.facts),
        flags=tuple(replace(flags, x=places(flags.x, plot.clock, axis)) for flags in plot.flags),
    )


def _moved(bands: tuple[Band, ...], move: Callable[[Values], Values]) -> tuple[Band, ...]:
    return tuple(replace(band, facts=tuple(map(move, band.facts))) for band in bands)


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


def logarithmic(plot: Plot) -> Plot:
    """The same with the logarithms of all values; what has none is a gap."""
    return replace(
        plot,
        lines=tuple(
            replace(
                line,
                y=_log(line.y),
                raw=None if line.raw is None else _log(line.raw),
                bands=tuple(replace(b, low=_log(b.low), high=_log(b.high)) for b in line.bands),
            )
            for line in plot.lines
        ),
        marks=tuple(replace(marks, y=_log(marks.y)) for marks in plot.marks),
    )


def without_logarithm(plot: Plot, x: Range) -> int:
    """How many of the values inside ``x`` a logarithmic axis cannot show."""
    with np.errstate(invalid="ignore"):
        return sum(int((within(values, x) <= 0).sum()) for values in plot.drawn)


def within(values: Values, x: Range) -> Floats:
    """The part of the values that stands inside ``x``."""
    return values.y[inside(values.x, x)]


def inside(x: Floats, span: Range) -> slice:
    first = int(np.searchsorted(x, span.low, side="left"))
    return slice(first, int(np.searchsorted(x, span.high, side="right")))


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)
