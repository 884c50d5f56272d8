"""The output of every drawing: rows of text runs that name their colours by role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from rich.cells import cell_len


@dataclass(frozen=True)
class Span:
    """Characters in one colour. ``ink`` and ``paper`` name theme variables; empty is inherited."""

    text: str
    ink: str = ""
    paper: str = ""
    bold: bool = False


Row = list[Span]


def width_of(row: Row) -> int:
    """Cells that a row takes."""
    return sum(cell_len(span.text) for span in row)


def justify(left: Row, right: Row, width: int) -> Row:
    """``left`` and ``right`` at the ends of a line; ``right`` gives way when both do not fit."""
    room = width - width_of(left) - width_of(right)
    return [*left, Span(" " * room), *right] if room >= 2 else left


def differences(old: Row, new: Row, width: int) -> Iterator[tuple[int, int]]:
    """The cells ``start..end`` of a line of ``width`` in which two rows differ, left to right.

    Where the spans are of the same sizes each is compared by itself: in a legend only the numbers
    change.
    """
    if [cell_len(span.text) for span in old] != [cell_len(span.text) for span in new]:
        yield _difference(old, new, width)
        return
    start = 0
    for before, after in zip(old, new, strict=True):
        if before != after:
            low, high = _difference([before], [after], width)
            yield start + low, start + high
        start += cell_len(after.text)


def _difference(old: Row, new: Row, width: int) -> tuple[int, int]:
    """From the first to behind the last cell that differs."""
    same = min(width, _same_cells(zip(old, new, strict=False)))
    used = width_of(new)
    if used != width_of(old):
        return same, width
    after = _same_cells(zip(reversed(old), reversed(new), strict=False), backwards=True)
    return same, min(width, max(same, used - after))


def _same_cells(pairs: Iterable[tuple[Span, Span]], *, backwards: bool = False) -> int:
    """Cells that the spans have in common before the first difference."""
    cells = 0
    for old, new in pairs:
        if old == new:
            cells += cell_len(old.text)
            continue
        if replace(old, text="") == replace(new, text=""):
            step = -1 if backwards else 1
            both = zip(old.text[::step], new.text[::step], strict=False)
            cells += sum(
                cell_len(char) for char, _ in takewhile(lambda two: two[0] == two[1], both)
            )
        break
    return cells


def plain(rows: Iterable[Row]) -> str:
    """The picture without its colours."""
    return "\n".join("".join(span.text for span in row).rstrip() for row in rows)
