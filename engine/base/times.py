"""How seconds are told, everywhere: on the screen, by commands, in findings and in log entries."""

from __future__ import annotations

import math

_UNITS = ((3600.0, "h", 10_000.0), (1.0, "s", 0.1), (1e-3, "ms", 1e-4), (1e-6, "µs", 1e-7))
"""Seconds of a unit, its name, and the seconds from which it is used."""


def seconds(value: float) -> str:
    """Three digits in the unit that fits: ``27.2 µs``, ``12.3 ms``, ``6.4 s``, ``310 s``, ``3 h``.

    Fewer would be rounded away where times are multiplied before a reader's eyes, as in ``4 rounds
    x 27.2 µs = 0.109 ms``. What is less than a tenth of a microsecond is ``0 s``, what is no
    number ``– s``.
    """
    if not math.isfinite(value):
        return "– s"
    size = abs(value)
    for unit, name, least in _UNITS:
        if size >= least:
            return f"{_three_digits(value / unit)} {name}"
    return "0 s"


def _three_digits(number: float) -> str:
    """Without an exponent, which three digits of 999.5 and more would have."""
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"
