"""The output of every drawing: rows of text runs that name their colours by role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len


@dataclass(frozen=True)
class Span:
    """Characters in one colour. ``ink`` and ``paper`` name theme variables; empty is inherited."""

    text: str
    ink: str = ""
    paper: str = ""
    bold: bool = False


Row = list[Span]


@dataclass
class Cell:
    """One character of a picture while it is drawn."""

    char: str = " "
    ink: str = ""
    paper: str = ""


Grid = list[list[Cell]]


def blank(width: int, height: int) -> Grid:
    """An empty picture; row 0 is the top."""
    return [[Cell() for _ in range(width)] for _ in range(height)]


def merge(cells: Iterable[Cell]) -> Row:
    """Neighbours of one colour as one span."""
    runs = groupby(cells, key=lambda cell: (cell.ink, cell.paper))
    return [Span("".join(cell.char for cell in run), *colours) for colours, run in runs]


def write(row: Sequence[Cell], start: int, text: str, ink: str) -> None:
    """Put ``text`` into a row of cells; what does not fit is dropped."""
    for cell, char in zip(row[max(0, start) :], text, strict=False):
        cell.char, cell.ink = char, ink


def width_of(row: Row) -> int:
    """Cells that a row takes."""
    return sum(cell_len(span.text) for span in row)


def justify(left: Row, right: Row, width: int) -> Row:
    """``left`` and ``right`` at the ends of a line; ``right`` gives way when both do not fit."""
    room = width - width_of(left) - width_of(right)
    return [*left, Span(" " * room), *right] if room >= 2 else left


def plain(rows: Iterable[Row]) -> str:
    """The picture without its colours."""
    return "\n".join("".join(span.text for span in row).rstrip() for row in rows)
