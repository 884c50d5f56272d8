"""The visible rows of a log, read when they are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from engine.logs.log_file import LogFile, Offsets
from engine.logs.log_lines import split_source
from engine.logs.log_query import highlighter
from engine.logs.log_rows import LogWindow, Row
from engine.logs.log_survey import Survey
from grubrics_tui.drawing.console_text import (
    ConsoleText,
    console_text,
    highlighted,
    less_indented,
    plain_line,
)
from grubrics_tui.drawing.spans import Span
from grubrics_tui.model.log_search import LogSearch

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


_CACHED_TEXTS = 400
_COPIED_BYTES = 256 * 1024


class LogPicture(Widget):
    """Draws ``window`` of ``file``; beside it where hits of ``search`` and errors are.

    ``marks_end`` shows the cursor also while the end is followed. ``indent`` limits the blanks at
    the start of a line, which may push its words out of a narrow panel.
    """

    DEFAULT_CSS = "LogPicture { height: 1fr; }"

    can_focus = False

    class Changed(Message):
        """Position, file or statistics have changed; redraw the status line."""

    def __init__(
        self, *, marks_end: bool = False, indent: int | None = None, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.file: LogFile | None = None
        self.window: LogWindow | None = None
        self.wrapped, self.left = False, 0
        self.survey = Survey()
        self.search: LogSearch | None = None
        self._marks_end, self._indent = marks_end, indent
        self._strips: list[Strip] | None = None
        self._shown: list[Row] = []
        self._texts: dict[tuple[Row, int], ConsoleText] = {}
        self._styles: dict[tuple[str, str, bool], Style] = {}
        self._base = Style.null()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._recolor())

    @property
    def following(self) -> bool:
        return self.window is None or self.window.following

    @property
    def cursor(self) -> int:
        """The byte at which the row under the cursor begins."""
        return self.window.cursor if self.window else 0

    @property
    def shows_all(self) -> bool:
        """Whether the whole file is visible."""
        if self.file is None or not self._shown:
            return False
        return self._shown[0].start == 0 and self._shown[-1].end >= self.file.size

    def row_under_cursor(self) -> Row | None:
        rows = self.window.rows.forward(self.cursor, 1) if self.window else []
        return rows[0] if rows else None

    def line_under_cursor(self) -> str | None:
        """The text of the current line, cut to what a clipboard accepts."""
        row = self.row_under_cursor()
        if row is None or self.file is None:
            return None
        end = min(row.shown.end, row.shown.start + _COPIED_BYTES)
        return plain_line(self.file.read(row.shown.start, end))

    def scroll_sideways(self, cells: int) -> None:
        self.left = max(0, min(FARTHEST, self.left + cells))
        self.redraw()

    def toggle_wrap(self) -> None:
        self.wrapped = not self.wrapped
        self.left = 0
        self.redraw()

    def forget_texts(self) -> None:
        """Drop cached texts, because another file is shown."""
        self._texts.clear()

    def on_resize(self) -> None:
        self.redraw()

    def _recolor(self) -> None:
        self._styles.clear()
        self.redraw()

    def redraw(self) -> None:
        self._strips = None
        self.refresh()
        self.post_message(self.Changed())

    def render_line(self, y: int) -> Strip:
        if self._strips is None:
            self._strips = self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.rich_style)

    def _draw(self) -> list[Strip]:
        width, height = self.size
        if self.window is None or self.file is None or width < 4:
            return []
        base = self.rich_style
        if base != self._base:
            self._base = base
            self._styles.clear()
        search = self.search
        pattern = highlighter(search.query.patterns[0]) if search else None
        row_format = RowFormat(
            width - 1, self.left, self.wrapped, max(1, height - 1), self._ascii_only, pattern
        )
        if len(self._texts) > _CACHED_TEXTS:
            self._texts.clear()
        before = self.cursor
        self._shown = self.window.visible(
            height, lambda row: height_of(self._text(row), row_format)
        )
        if self.cursor != before:  # It follows the end.
            self.post_message(self.Changed())
        lines = [
            strip
            for row in self._shown
            for strip in strips_of(self._text(row), row, self._marks(row), row_format, self._style)
        ]
        lines = lines[-height:] if self.window.fills_upwards else lines[:height]
        bar = self._scrollbar(height)
        blank = Strip.blank(width - 1, base)
        lines += [blank] * (height - len(lines))
        return [Strip([*line, bar[y]], width) for y, line in enumerate(lines)]

    @property
    def _ascii_only(self) -> bool:
        return bool(getattr(self.app, "ascii_only", False))

    def _text(self, row: Row) -> ConsoleText:
        assert self.file is not None
        key = (row, self.left)
        if key not in self._texts:
            text = text_of(self.file, row, self.left)
            self._texts[key] = text if self._indent is None else less_indented(text, self._indent)
        return self._texts[key]

    def _marks(self, row: Row) -> Marks:
        is_cursor = row.start <= self.cursor < row.end
        shows_cursor = self._marks_end or not self.following
        hit = self.search is not None and self.search.hits.any_in(row.start, row.end)
        return Marks(is_cursor and shows_cursor, hit)

    def _scrollbar(self, height: int) -> list[Segment]:
        assert self.file is not None
        visible = (self._shown[0].start, self._shown[-1].end) if self._shown else (0, 0)
        bar = scrollbar(
            self.file.size,
            visible,
            height,
            {"mark": self.search.hits if self.search else Offsets(), "error": self.survey.errors},
            ascii_only=self._ascii_only,
        )
        return [Segment(span.text, self._style(span)) for span in bar]

    def _style(self, span: Span) -> Style:
        key = (span.ink, span.paper, span.bold)
        if key not in self._styles:
            colors = self.app.theme_variables
            self._styles[key] = self._base + Style(
                color=colors.get(span.ink or "foreground"),
                bgcolor=colors.get(span.paper),
                bold=span.bold or None,
            )
        return self._styles[key]
