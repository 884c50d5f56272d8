"""The axes of a chart, whatever draws it: ranges, round values, their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_UNITS = ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e3, "k", 1e4))
"""The factor of a unit, its sign, and the least value that is written with it."""
_SECOND_UNITS = ((1.0, " s", 1.0), (1e-3, " ms", 1e-3), (1e-6, " µs", 0.0))
"""The same for seconds."""
_PLAIN = 1e12
"""From here on, powers of ten are shorter."""
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Range:
    """A closed interval of values, ``low < high``."""

    low: float
    high: float

    @property
    def size(self) -> float:
        return self.high - self.low

    def place(self, value: float, size: int) -> int:
        """The position of ``value`` among ``size`` cells, clamped to 0 ... size - 1."""
        return round(min(1.0, max(0.0, self.share(value))) * (size - 1))

    def share(self, value: float) -> float:
        """0 at ``low``, 1 at ``high``."""
        return (value - self.low) / (self.high - self.low)


def around(values: Iterable[float], pad: float = 0.06) -> Range:
    """The range of ``values`` with a small margin. A constant or no value gets a range too; the
    constant 0 gets 0 to 1."""
    known = list(values)
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low == high == 0:
        high = 1.0
    air = (high - low) * pad or max(abs(high) * pad, 1e-6)
    return Range(low - air, high + air)


def ticks(span: Range, at_most: int) -> list[float]:
    """Round values inside ``span``: at most ``at_most`` of them, at least one when any is round."""
    return multiples(span, tick_step(span, at_most))[: max(1, at_most)]


def tick_step(span: Range, at_most: int) -> float:
    """The smallest round step that gives no more than ``at_most`` ticks."""
    rough = (span.high - span.low) / max(1, at_most)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in _ROUND if factor * magnitude >= rough * 0.999)


def tick_labels(
    span: Range, values: list[float], at_most: int, *, are_seconds: bool = False
) -> list[str]:
    """All labels in one unit with the same number of decimals, just enough to tell them apart."""
    largest = max(map(abs, values), default=0)
    units = _SECOND_UNITS if are_seconds else _UNITS
    unit, name = next(((u, n) for u, n, least in units if largest >= least), (1.0, ""))
    step = tick_step(span, at_most) / unit
    decimals = next((d for d in range(5) if math.isclose(round(step, d), step, rel_tol=1e-6)), None)
    if decimals is None or largest >= _PLAIN:
        return [_compact(value) for value in values]
    return [f"{value / unit:.{decimals}f}{name if value else ''}" for value in values]


def _compact(value: float) -> str:
    """``2e-7``, ``1.5e20``."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{float(digits):g}e{int(exponent)}" if value else "0"


def steady(span: Range) -> Range:
    """Extend ``span`` to round ends, which stay the same while the data grow into it.

    A line that gains a point per second is then extended instead of compressed each time.
    """
    if span.size <= 32:
        return span
    room = 2.0 ** (math.floor(math.log2(span.size)) - 4)
    return Range(math.floor(span.low / room) * room, math.ceil(span.high / room) * room)


def step_between(x: Range, at_most: int) -> float:
    """The smallest round number of whole steps that gives at most ``at_most`` labels."""
    rough = tick_step(x, at_most)
    return max(1.0, rough if rough.is_integer() else rough * 2)


def step_ticks(x: Range, at_most: int) -> list[float]:
    """Round whole steps inside ``x``."""
    return multiples(x, step_between(x, at_most))


def multiples(x: Range, step: float, offset: float = 0.0) -> list[float]:
    """``offset`` and what is a multiple of ``step`` away from it, inside ``x``; at most 100."""
    first = math.ceil((x.low - offset) / step - 1e-9)
    last = math.floor((x.high - offset) / step + 1e-9)
    return [offset + index * step for index in range(first, min(last, first + 99) + 1)]


@dataclass(frozen=True)
class Axis:
    """``levels`` are places on ``span``; of a logarithmic axis both are exponents of ten."""

    span: Range
    levels: list[float]
    labels: list[str]


def axis_of(span: Range, rows: int, *, log: bool = False, are_seconds: bool = False) -> Axis:
    """As many round levels as ``rows`` lines of text have room for, a free line between two.

    Levels that ``are_seconds`` have a unit: ``5 ms``.
    """
    most = max(2, min(5, (rows + 1) // 2))
    axes = (_axis(span, at_most, log, are_seconds) for at_most in range(most, 0, -1))
    spread = (axis for axis in axes if _has_air(axis, rows))
    return next(spread, _axis(span, 1, log, are_seconds))


def _has_air(axis: Axis, rows: int) -> bool:
    places = [axis.span.place(level, rows) for level in axis.levels]
    return all(upper - lower >= 2 for lower, upper in pairwise(places))


def _axis(span: Range, at_most: int, log: bool, are_seconds: bool) -> Axis:
    if log and span.size >= 1:
        levels, label = _decades(span, at_most), _power_of_seconds if are_seconds else _power
        return Axis(span, levels, [label(level) for level in levels])
    if log:
        plain = Range(10**span.low, 10**span.high)
        values = [value for value in ticks(plain, at_most) if value > 0]
        labels = tick_labels(plain, values, at_most, are_seconds=are_seconds)
        return Axis(span, [math.log10(value) for value in values], labels)
    levels = ticks(span, at_most)
    return Axis(span, levels, tick_labels(span, levels, at_most, are_seconds=are_seconds))


def _decades(span: Range, at_most: int) -> list[float]:
    first, last = math.ceil(span.low), math.floor(span.high)
    interval = max(1, math.ceil((last - first + 1) / at_most))
    return [float(power) for power in range(first, last + 1, interval)]


def _power(exponent: float) -> str:
    """A power of ten, plain while that is short."""
    return f"{10**exponent:g}" if -4 <= exponent <= 5 else f"1e{exponent:.0f}"


def _power_of_seconds(exponent: float) -> str:
    unit, name = next((unit, name) for unit, name, least in _SECOND_UNITS if 10**exponent >= least)
    return f"{10**exponent / unit:g}{name}"
