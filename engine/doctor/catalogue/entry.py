"""One row of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

HOLE = "…"
"""Stands for what a run's numbers fill in."""


@dataclass(frozen=True)
class Entry:
    """``evidence`` is a line that tells of it, or the name of the rule file whose shape does."""

    id: str
    severity: str
    symptom: str
    cause: str
    remedies: tuple[str, ...]
    evidence: str = ""
    shape: str = ""

    @property
    def family(self) -> str:
        return self.id.split(".", 1)[0]


@dataclass(frozen=True)
class Shape:
    """What the rules of one file look for in a run's numbers or records; its docstring."""

    name: str
    title: str
    text: str
