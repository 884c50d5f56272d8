"""Format numbers: one way to write each quantity, with a dash for a missing value."""

from __future__ import annotations

from engine.base import times
from engine.base.times import MISSING as MISSING
from engine.base.times import age as age
from engine.base.times import clock as clock
from engine.base.times import duration as duration


def fixed(value: float | None, decimals: int = 3) -> str:
    """``0.412``; a dash for a missing value."""
    return MISSING if value is None else f"{value:.{decimals}f}"


def significant(value: float) -> str:
    """``0.412346``: six significant digits, one decimal from 100,000 on; ``5.0`` for an integer."""
    if value.is_integer():
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100_000 else f"{value:.6g}"


def seconds(value: float | None) -> str:
    """``27.2 µs``, ``0.42 s``, ``310 s``, as ``engine.base.times`` formats them."""
    return MISSING if value is None else times.seconds(value)


def scientific(value: float | None) -> str:
    """``1.20e-05``."""
    return MISSING if value is None else f"{value:.2e}"


def percent(share: float | None, decimals: int = 0) -> str:
    """``25%`` of a share between 0 and 1."""
    return MISSING if share is None else f"{share * 100:.{decimals}f}%"


def thousands(value: float | None) -> str:
    """``1,234``."""
    return MISSING if value is None else f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """``$0.0042``, ``$1.20``: two significant digits below a dollar."""
    if value is None:
        return MISSING
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.2g}"


def memory(value: float | None) -> str:
    """Bytes as ``61.2 GiB``, ``4.9 MiB`` or ``12 KiB``."""
    if value is None:
        return MISSING
    if 0 < value < 2**20:
        return f"{max(1, round(value / 2**10))} KiB"
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"
