"""Rows of a log as lines of the screen, and the scrollbar beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from engine.logs.log_file import LogFile, Offsets
from engine.logs.log_lines import split_source
from engine.logs.log_rows import Row
from grubrics_tui.drawing.console_text import ConsoleText, console_text, highlighted
from grubrics_tui.drawing.spans import Span

TEXT_BYTES = 16 * 1024
"""Bytes of a line that are read, beyond those scrolled away to the left."""

FARTHEST = 60_000
"""Cells that a line can be scrolled to the left."""

_SOURCE_INKS = ("series-1", "series-2", "series-3", "phase-3", "phase-6")

StyleOf = Callable[[Span], Style]


@dataclass(frozen=True)
class RowFormat:
    """How rows are drawn; ``left`` cells are scrolled away, ``tallest`` is the limit of lines."""

    width: int
    left: int = 0
    wrapped: bool = False
    tallest: int = 1
    ascii_only: bool = False
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Marks:
    """Whether a row is the current line, and a search hit."""

    cursor: bool = False
    hit: bool = False


def text_of(file: LogFile, row: Row, left: int = 0) -> ConsoleText:
    """The text of a row; of a very long line its start, or the last state of its progress bar."""
    line, limit = row.shown, TEXT_BYTES + 4 * left
    length = line.end - line.start
    raw = file.read(line.start, min(line.end, line.start + limit))
    if length <= limit:
        return console_text(raw)
    tail = file.read(line.end - TEXT_BYTES, line.end).rstrip(b"\r\n")
    if b"\r" in tail:
        prefix = raw[: len(raw) - len(split_source(raw)[1])]
        return console_text(prefix + tail[tail.index(b"\r") + 1 :])
    text = console_text(raw)
    cut = Span(f"… +{length - limit:,} bytes", "quiet")
    return replace(text, spans=(*text.spans, cut))


def source_label(source: str) -> Span:
    """A Ray actor in its color, which is the same in every log."""
    name, _, pid = source.partition(" pid=")
    return Span(f"{name} {pid}  ", _SOURCE_INKS[crc32(source.encode()) % len(_SOURCE_INKS)])


def height_of(text: ConsoleText, format: RowFormat) -> int:
    if not format.wrapped:
        return 1
    cells = _strip(text, format, lambda span: Style.null()).cell_length - format.left
    return max(1, min(format.tallest, -(-cells // max(1, format.width - 1))))


def strips_of(
    text: ConsoleText, row: Row, marks: Marks, format: RowFormat, style_of: StyleOf
) -> list[Strip]:
    """The lines of one row, each ``looks.width`` cells wide."""
    paper = "line" if marks.cursor else ""
    line_strip = _strip(text, format, lambda span: style_of(_on(span, paper)))
    room = format.width - 1
    times = "x" if format.ascii_only else "×"
    count = "" if row.count == 1 else f" {times}{row.count:,}"
    height = height_of(text, format)
    gutter = _gutter(marks, format)
    strips = []
    for line in range(height):
        start = format.left + line * room
        mark = count if line == 0 else ""
        is_last = line == height - 1
        body = _cut(
            line_strip, start, room - len(mark), is_last, style_of(_on(Span("", "quiet"), paper))
        )
        pad = style_of(_on(Span(""), paper))
        segments = [
            Segment(gutter.text, style_of(_on(gutter, paper))),
            *body.adjust_cell_length(room - len(mark), pad),
            Segment(mark, style_of(_on(Span("", "mark", "", True), paper))),
        ]
        strips.append(Strip(segments, format.width))
    return strips


def _strip(text: ConsoleText, format: RowFormat, style_of: StyleOf) -> Strip:
    spans = highlighted(text.spans, format.pattern)
    label = [source_label(text.source)] if text.source else []
    # Characters beyond the visible part take time and are never drawn.
    reach = format.left + 2 * format.width * (format.tallest if format.wrapped else 1)
    in_reach = _first_characters((*label, *spans), reach)
    return Strip([Segment(span.text, style_of(span)) for span in in_reach])


def _first_characters(spans: tuple[Span, ...], count: int) -> Iterator[Span]:
    for span in spans:
        if count <= 0:
            return
        yield span if len(span.text) <= count else replace(span, text=span.text[:count])
        count -= len(span.text)


def _cut(strip: Strip, start: int, room: int, is_last: bool, quiet: Style) -> Strip:
    """The visible part of a line, with an ellipsis where it is cut."""
    part = strip.crop(start, start + room)
    if is_last and strip.cell_length > start + room > 0:
        return Strip([*part.crop(0, room - 1), Segment("…", quiet)])
    return part


def _on(span: Span, paper: str) -> Span:
    return replace(span, paper=paper) if paper and not span.paper else span


def _gutter(marks: Marks, format: RowFormat) -> Span:
    """The character before a row."""
    if marks.cursor:
        return Span(">" if format.ascii_only else "▌", "primary")
    sign = "*" if format.ascii_only else "▏"
    return Span(sign if marks.hit else " ", "mark")


def scrollbar(
    size: int,
    visible: tuple[int, int],
    height: int,
    marks: Mapping[str, Offsets],
    *,
    ascii_only: bool = False,
) -> list[Span]:
    """One character per screen line, each for a part of the file.

    ``marks`` holds offsets by ink: the first ink with an offset in a part colors it.
    """
    size, cells = max(1, size), []
    for y in range(height):
        start = y * size // height
        end = max((y + 1) * size // height, start + 1)
        is_visible = visible[0] < end and visible[1] > start
        inks = [ink for ink, offsets in marks.items() if offsets.any_in(start, end)]
        ink = inks[0] if inks else "line-focus" if is_visible else "line"
        thick, thin = ("#", "|") if ascii_only else ("┃", "│")
        cells.append(Span(thick if is_visible else thin, ink))
    return cells
