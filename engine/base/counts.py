"""Count things in texts: the noun is singular after 1."""

from __future__ import annotations


def count_of(number: int, noun: str, *, plural: str = "") -> str:
    """Return, for example, ``1 step`` or ``2 steps``."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(size: float) -> str:
    """Bytes as ``16.06 GB`` or ``4.9 MB``, as the hub counts them."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
