"""Axes in cells of a terminal: room for labels, and steps as times."""

from __future__ import annotations

import math
import time
from typing import Literal

import numpy as np

from engine.base.ticks import Axis, Range, multiples, step_ticks
from engine.run.history.columns import Clock, Column, Floats

XAxis = Literal["step", "elapsed", "clock"]
X_AXES: tuple[XAxis, ...] = ("step", "elapsed", "clock")


def has_times(clock: Column | None) -> bool:
    """Whether the steps' times say anything: some logs carry none."""
    return clock is not None and len(clock) > 0 and clock.values[-1] > 0


def elapsed(moments: Floats, clock: Column) -> Floats:
    """Seconds of training up to ``moments``; of steps alone, seconds since the first of them."""
    return clock.elapsed(moments) if isinstance(clock, Clock) else moments - clock.values[0]


def places(steps: Floats, clock: Column | None, axis: XAxis) -> Floats:
    """The positions of ``steps`` on an x axis: steps, seconds of training, or unix seconds.

    A clock that was set back counts as stopped meanwhile; a step without a time is placed between
    its neighbors.
    """
    if axis == "step" or clock is None or not has_times(clock):
        return steps
    moments = np.maximum.accumulate(clock.values)
    if axis == "elapsed":
        moments = elapsed(moments, clock)
    if steps is clock.steps or np.array_equal(steps, clock.steps):
        return moments
    return np.interp(steps, clock.steps, moments)


def steps_at(places: Floats, clock: Column | None, axis: XAxis) -> Floats:
    """The steps, with fractions, at positions on an x axis."""
    if axis == "step" or clock is None or not has_times(clock):
        return places
    moments = np.maximum.accumulate(clock.values)
    if axis == "elapsed":
        moments = elapsed(moments, clock)
    steps: Floats = np.interp(places, moments, clock.steps)
    return steps


def moments(seconds: Floats, clock: Column | None, axis: XAxis) -> Floats:
    """Convert unix ``seconds`` to positions on a time axis; elapsed seconds for the step axis."""
    if axis == "clock":
        return seconds
    begun = isinstance(clock, Clock) and clock.begins is not None
    if clock is not None and (begun or has_times(clock)):
        return elapsed(seconds, clock)
    origin = float(seconds[:1].sum())
    return seconds - origin


def format_place(place: float, axis: XAxis, span: float) -> str:
    """Format a position on an x axis, as exactly as a range of ``span`` needs."""
    if axis == "step":
        return f"{place:.6g}" if abs(place) < 1e6 else f"{place:.0f}"
    if axis == "elapsed":
        return _format_elapsed(place, span)
    return time.strftime(_clock_format(span), time.localtime(place))


def _format_elapsed(seconds: float, span: float) -> str:
    sign = "-" if seconds < -0.5 else ""
    minutes, rest = divmod(round(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if span >= 36 * 3600:
        return f"{sign}{hours}h"
    long = span >= 3600 or hours
    return sign + (f"{hours}:{minutes:02}:{rest:02}" if long else f"{minutes}:{rest:02}")


def _clock_format(span: float) -> str:
    if span >= 3 * 86400:
        return "%m-%d"
    return "%m-%d %H:%M" if span >= 86400 else "%H:%M" if span >= 600 else "%H:%M:%S"


_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY = 86400
_MINUTES = 600
"""A range of so many seconds is written without its seconds."""

UNITS: dict[XAxis, str] = {"step": "step", "elapsed": "time", "clock": ""}
"""What is written left of the x axis, where the gutter has room for it."""

_NARROWEST = 5
"""Cells of the narrowest gutter: charts above each other then mostly share it."""


def gutter_of(axis: Axis) -> int:
    """Cells that the labels of the levels take, with one free."""
    return max(_NARROWEST, max(map(len, axis.labels), default=0) + 1)


def x_labels(x: Range, axis: XAxis, width: int) -> list[tuple[int, str]]:
    """``(column, text)`` of the labels below ``width`` cells, left to right, without overlap."""
    labels: list[tuple[int, str]] = []
    free = 0
    tick_values = _x_ticks(x, axis, max(2, width // 9))
    whole_minutes = all(value % 60 == 0 for value in tick_values)
    span = max(x.size, _MINUTES) if whole_minutes else x.size
    for value in tick_values:
        text = format_place(value, axis, span)
        column = min(x.place(value, width) - len(text) // 2, width - len(text))
        if column >= free or not labels:
            labels.append((max(0, column), text))
            free = max(0, column) + len(text) + 2
    return labels


def _x_ticks(x: Range, axis: XAxis, at_most: int) -> list[float]:
    if axis == "step":
        return step_ticks(x, at_most)
    rough = x.size / at_most
    days = math.ceil(rough / _DAY) * _DAY
    step = next((float(seconds) for seconds in _SECONDS if seconds >= rough), float(days))
    # Round in local time.
    offset = time.localtime(x.low).tm_gmtoff if axis == "clock" else 0
    return multiples(x, step, -float(offset))
