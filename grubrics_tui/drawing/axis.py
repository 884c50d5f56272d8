"""What is written beside and below a picture: round values, and where they stand."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise

from grubrics_tui.drawing.scale import Range, tick_labels, tick_room, tick_step, ticks
from grubrics_tui.drawing.timeline import told
from grubrics_tui.drawing.view import XAxis

_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY = 86400
_MINUTES = 600
"""A range of so many seconds is written without its seconds."""

UNITS: dict[XAxis, str] = {"step": "step", "elapsed": "time", "clock": ""}
"""What is written left of the x axis, where the gutter has room for it."""


_NARROWEST = 5
"""Cells of the narrowest gutter: charts above each other then mostly share it."""


@dataclass(frozen=True)
class Axis:
    """``levels`` are places on ``span``; of a logarithmic axis both are powers of ten."""

    span: Range
    levels: list[float]
    labels: list[str]

    @property
    def gutter(self) -> int:
        """Cells that the labels take, with one free."""
        return max(_NARROWEST, max(map(len, self.labels), default=0) + 1)


def axis_of(span: Range, rows: int, *, log: bool = False) -> Axis:
    """As many round levels as ``rows`` lines of text have room for, a free line between two."""
    axes = (_axis(span, at_most, log) for at_most in range(tick_room(rows), 0, -1))
    spread = (axis for axis in axes if _has_air(axis, rows))
    return next(spread, _axis(span, 1, log))


def _has_air(axis: Axis, rows: int) -> bool:
    places = [axis.span.place(level, rows) for level in axis.levels]
    return all(upper - lower >= 2 for lower, upper in pairwise(places))


def _axis(span: Range, at_most: int, log: bool) -> Axis:
    if log and span.size >= 1:
        levels = _decades(span, at_most)
        return Axis(span, levels, [_power(level) for level in levels])
    if log:
        plain = Range(10**span.low, 10**span.high)
        values = [value for value in ticks(plain, at_most) if value > 0]
        labels = tick_labels(plain, values, at_most)
        return Axis(span, [math.log10(value) for value in values], labels)
    levels = ticks(span, at_most)
    return Axis(span, levels, tick_labels(span, levels, at_most))


def _decades(span: Range, at_most: int) -> list[float]:
    first, last = math.ceil(span.low), math.floor(span.high)
    every = max(1, math.ceil((last - first + 1) / at_most))
    return [float(power) for power in range(first, last + 1, every)]


def _power(exponent: float) -> str:
    """A power of ten, plain while that is short."""
    return f"{10**exponent:g}" if -4 <= exponent <= 5 else f"1e{exponent:.0f}"


def x_labels(x: Range, axis: XAxis, width: int) -> list[tuple[int, str]]:
    """``(column, text)`` of the round places below ``width`` cells, left to right, apart."""
    labels: list[tuple[int, str]] = []
    free = 0
    found = _x_ticks(x, axis, max(2, width // 9))
    exactness = max(x.size, _MINUTES) if all(place % 60 == 0 for place in found) else x.size
    for place in found:
        text = told(place, axis, exactness)
        column = min(x.place(place, width) - len(text) // 2, width - len(text))
        if column >= free or not labels:
            labels.append((max(0, column), text))
            free = max(0, column) + len(text) + 2
    return labels


def step_between(x: Range, at_most: int) -> float:
    """The smallest round number of whole steps that gives no more than ``at_most`` places."""
    rough = tick_step(x, at_most)
    return max(1.0, rough if rough.is_integer() else rough * 2)


def _x_ticks(x: Range, axis: XAxis, at_most: int) -> list[float]:
    if axis == "step":
        return _multiples(x, step_between(x, at_most), 0.0)
    rough = x.size / at_most
    days = math.ceil(rough / _DAY) * _DAY
    step = next((float(seconds) for seconds in _SECONDS if seconds >= rough), float(days))
    # Round in the clock that the person reads.
    offset = time.localtime(x.low).tm_gmtoff if axis == "clock" else 0
    return _multiples(x, step, -float(offset))


def _multiples(x: Range, step: float, offset: float) -> list[float]:
    first = math.ceil((x.low - offset) / step - 1e-9)
    last = math.floor((x.high - offset) / step + 1e-9)
    return [offset + index * step for index in range(first, min(last, first + 99) + 1)]
