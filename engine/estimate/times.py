"""How times are told that are multiplied before a reader's eyes."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Three digits, from a stand-in's microseconds to hours: ``0.0272 ms``, ``6.4 s``, ``310 s``.

    Fewer would be rounded away, and ``4 rounds x 0.0 ms = 0.1 ms`` does not add up.
    """
    if 0 < value < 0.1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.0f} s" if value >= 100 else f"{value:.3g} s"
