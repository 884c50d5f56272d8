"""A curve in one line of block characters."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
_FLAT = 0.3
"""Height of a curve whose values are all equal."""


def sparkline(values: Sequence[float | None], levels: str = BLOCKS) -> str:
    """One character of ``levels`` (lowest first) per value; a blank for None and for a NaN.

    The lowest value is drawn at the bottom and the highest at the top.
    """
    present = [value for value in values if value is not None and value == value]
    if not present:
        return " " * len(values)
    low, high = min(present), max(present)
    is_flat = high - low <= 1e-9 * max(abs(high), abs(low))
    top = len(levels) - 1

    def draw(value: float | None) -> str:
        if value is None or value != value:
            return " "
        return levels[round((_FLAT if is_flat else (value - low) / (high - low)) * top)]

    return "".join(map(draw, values))
