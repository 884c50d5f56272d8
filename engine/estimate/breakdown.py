"""Totals of bytes with their parts, and the arithmetic of each part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

GIB = 1024**3


@dataclass(frozen=True)
class Part:
    """One thing that takes memory or disk. ``how`` is its arithmetic in words and numbers."""

    name: str
    bytes: int
    how: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Parts that are there at the same time."""

    name: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """Bytes; always the sum of the parts."""
        return sum(part.bytes for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        parts = [{"name": one.name, "bytes": one.bytes, "how": one.how} for one in self.parts]
        return {"name": self.name, "bytes": self.total, "parts": parts}


def breakdown(name: str, parts: Iterable[Part]) -> Breakdown:
    """What takes nothing is left out."""
    return Breakdown(name, tuple(part for part in parts if part.bytes > 0))


def size(count: int) -> str:
    """Bytes for a person, in binary units."""
    for unit, factor in (("GiB", GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"
