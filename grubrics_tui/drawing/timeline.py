"""Between steps and the time at which they were logged."""

from __future__ import annotations

import time

import numpy as np

from engine.history.clock import Clock
from engine.history.columns import Column, Floats
from grubrics_tui.drawing.view import XAxis


def has_times(clock: Column | None) -> bool:
    """Whether the steps' times say anything: some logs carry none."""
    return clock is not None and len(clock) > 0 and clock.values[-1] > 0


def elapsed(moments: Floats, clock: Column) -> Floats:
    """Seconds of training up to ``moments``; of steps alone, seconds since the first of them."""
    return clock.elapsed(moments) if isinstance(clock, Clock) else moments - clock.values[0]


def places(steps: Floats, clock: Column | None, axis: XAxis) -> Floats:
    """Where ``steps`` stand on an x axis: as they are, seconds of training, unix seconds.

    A clock that was set back stands still meanwhile; a step that was not timed stands between its
    neighbours.
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
    """The steps, fractions of them included, at places on an x axis."""
    if axis == "step" or clock is None or not has_times(clock):
        return places
    moments = np.maximum.accumulate(clock.values)
    if axis == "elapsed":
        moments = elapsed(moments, clock)
    steps: Floats = np.interp(places, moments, clock.steps)
    return steps


def moments(seconds: Floats, clock: Column | None, axis: XAxis) -> Floats:
    """Unix ``seconds`` as places on a time axis; of the axis of steps, the elapsed ones."""
    if axis == "clock":
        return seconds
    begun = isinstance(clock, Clock) and clock.begins is not None
    if clock is not None and (begun or has_times(clock)):
        return elapsed(seconds, clock)
    origin = float(seconds[:1].sum())
    return seconds - origin


def told(place: float, axis: XAxis, span: float) -> str:
    """A place in words, as exact as a range of ``span`` asks for."""
    if axis == "step":
        return f"{place:.6g}" if abs(place) < 1e6 else f"{place:.0f}"
    if axis == "elapsed":
        return _elapsed(place, span)
    return time.strftime(_clock_format(span), time.localtime(place))


def _elapsed(seconds: float, span: float) -> str:
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
