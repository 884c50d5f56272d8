"""Count things in texts: the noun is singular after 1."""

from __future__ import annotations


def count_of(number: int, noun: str, *, plural: str = "") -> str:
    """Return, for example, ``1 step`` or ``2 steps``."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
