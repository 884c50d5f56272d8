"""The output of every drawing: rows of text runs that name their colors by role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len


@dataclass(frozen=True)
class Span:
    """Characters in one color. ``ink`` and ``paper`` name theme variables; empty is inherited."""

    text: str
    ink: str = ""
    paper: str = ""
    bold: bool = False

    def with_text(self, text: str) -> Span:
        """Other characters in the same color; several times faster than ``replace``."""
        return Span(text, self.ink, self.paper, self.bold)


Row = list[Span]


def width_of(row: Row) -> int:
    """Cells that a row takes."""
    return sum(cell_len(span.text) for span in row)


def justify(left: Row, right: Row, width: int) -> Row:
    """``left`` and ``right`` at the ends of a line; ``right`` gives way when both do not fit."""
    room = width - width_of(left) - width_of(right)
    return [*left, Span(" " * room), *right] if room >= 2 else left


def plain(rows: Iterable[Row]) -> str:
    """The picture without its colors."""
    return "\n".join("".join(span.text for span in row).rstrip() for row in rows)


def bar(share: float, width: int, ink: str, *, ascii_only: bool = False) -> Row:
    """``share`` (0 ... 1) of ``width`` cells, to half a cell, on a quiet track."""
    share = min(1.0, max(0.0, share))
    if ascii_only:
        full = round(share * width)
        return [Span("#" * full, ink), Span("." * (width - full), "grid")]
    full, half = divmod(round(share * width * 2), 2)
    head = "━" * full + "╸" * half
    return [Span(head, ink), Span("─" * (width - len(head)), "track")]
