"""Breaking colored text into rows of a given width."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from rich.cells import cell_len, set_cell_size

from grubrics_tui.drawing.spans import Row, Span


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
