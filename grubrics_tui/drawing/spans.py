"""The output of every drawing: rows of text runs that name their colors by role; their wrapping."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len, set_cell_size


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


def bar(share: float, width: int, ink: str, *, ascii_only: bool = False) -> Row:
    """``share`` (0 ... 1) of ``width`` cells, to half a cell, on a quiet track."""
    share = min(1.0, max(0.0, share))
    if ascii_only:
        full = round(share * width)
        return [Span("#" * full, ink), Span("." * (width - full), "grid")]
    full, half = divmod(round(share * width * 2), 2)
    head = "━" * full + "╸" * half
    return [Span(head, ink), Span("─" * (width - len(head)), "track")]


def wrapped(spans: Iterable[Span], width: int) -> list[Row]:
    """Rows of at most ``width`` cells, broken at blanks where there are any and at line ends."""
    rows: list[Row] = []
    for line in _lines(spans):
        rows += _rows(line, max(1, width))
    return rows


def clipped(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def fitted(row: Row, width: int, paper: str = "") -> Row:
    """The row on ``paper`` in exactly ``width`` cells, with an ellipsis where it was cut."""
    is_cut = width_of(row) > width
    room, cells = width - is_cut, Row()
    for span in row:
        text = set_cell_size(span.text, min(room, cell_len(span.text)))
        cells.append(Span(text, span.ink, paper, span.bold))
        room -= cell_len(text)
    return [*cells, Span("…" if is_cut else " " * room, "", paper)]


def _lines(spans: Iterable[Span]) -> Iterator[Row]:
    line: Row = []
    for span in spans:
        first, *rest = span.text.split("\n")
        line.append(span.with_text(first) if rest else span)
        for text in rest:
            yield line
            line = [span.with_text(text)]
    yield line


def _rows(line: Row, width: int) -> list[Row]:
    text = "".join(span.text for span in line)
    return list(_cut(line, list(_ranges(text, width))))


def _ranges(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where each row begins and ends: at the last blank that fits, or in the middle of a word."""
    ends = None if text.isascii() else list(accumulate(map(cell_len, text)))
    start = 0
    while (end := _reach(ends, start, width, len(text))) < len(text):
        blank = text.rfind(" ", start, end + 1)
        end = blank if blank > start else end
        yield start, end
        start = end
        while start < len(text) and text[start] == " ":
            start += 1
    yield start, len(text)


def _reach(ends: list[int] | None, start: int, width: int, size: int) -> int:
    """The end of what fits into a row; at least one character, however wide."""
    if ends is None:
        return min(size, start + width)
    before = ends[start - 1] if start else 0
    return min(size, max(start + 1, bisect_right(ends, before + width)))


def _cut(line: Row, ranges: list[tuple[int, int]]) -> Iterator[Row]:
    """The spans of each range; spans and ranges are both walked once."""
    number, offset = 0, 0
    for start, end in ranges:
        row: Row = []
        while number < len(line):
            span = line[number]
            part = span.text[max(0, start - offset) : max(0, end - offset)]
            if part:
                row.append(span if part == span.text else span.with_text(part))
            if offset + len(span.text) > end:
                break
            offset += len(span.text)
            number += 1
        yield row
