"""Round values on an axis, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_UNITS = ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e3, "k", 1e4))
"""The factor of a unit, its sign, and the least value that is written with it."""
SECOND_UNITS = ((1.0, " s", 1.0), (1e-3, " ms", 1e-3), (1e-6, " µs", 0.0))
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
    step = tick_step(span, at_most)
    first = math.ceil(span.low / step - 1e-9)
    last = math.floor(span.high / step + 1e-9)
    return [index * step for index in range(first, last + 1)][: max(1, at_most)]


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
    units = SECOND_UNITS if are_seconds else _UNITS
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
