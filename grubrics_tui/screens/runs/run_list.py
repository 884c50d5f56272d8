"""The runs of a folder, one line each, under heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.runs.columns import Column, RunInfo
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.screens.runs.table import HealthOf, Table, Widths
from grubrics_tui.settings.comparison_marks import ComparisonMarks

_HEAD = 1
"""Lines above the runs."""


class RunList(ScrollView, can_focus=True):
    """Draws only the visible lines, so ten thousand runs scroll like ten.

    The selected run stays selected while others come and go.
    """

    DEFAULT_CSS = """
    RunList {
        height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; padding: 0 1; background: $background;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
        &:focus { border: round $line-focus; border-title-color: $primary; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("pagedown,ctrl+d", "page(1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("home", "go(0)", show=False),
        Binding("end", "go(-1)", show=False),
    ]

    class Highlighted(Message):
        """The run under the cursor has changed."""

    class Opened(Message):
        """The run under the cursor was clicked."""

    class HeadClicked(Message):
        """The head of a column was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    class Turned(Message):
        """Other runs may be visible."""

    def __init__(
        self,
        marks: ComparisonMarks | None = None,
        health_of: HealthOf = lambda _: None,
    ) -> None:
        """``health_of`` returns the health of a finished run."""
        super().__init__()
        self._health_of = health_of
        self.border_title = "Runs"
        self.runs: Sequence[RunInfo] = ()
        self._marks = ComparisonMarks() if marks is None else marks
        self._index = 0
        self.order = ""
        """The column that sorts the runs, with ``-`` if reversed; it only marks the head."""
        self.chosen: Sequence[Column] | None = None
        """The columns to show; None: the default ones."""
        self._widths = Widths()
        self._table = Table.fit(self._widths, 0)

    @property
    def selected(self) -> RunInfo | None:
        return self.runs[self._index] if self._index < len(self.runs) else None

    @property
    def columns(self) -> list[str]:
        """The names of the columns on the screen, from left to right."""
        return self._table.names

    @property
    def in_sight(self) -> Sequence[RunInfo]:
        """The run under the cursor, then the visible ones."""
        first = round(self.scroll_offset.y)
        drawn = self.runs[first : first + self._rows]
        return [*self.runs[self._index : self._index + 1], *drawn]

    def show(self, runs: Sequence[RunInfo], summary: str = "") -> None:
        """``summary`` is shown in the frame instead of the number of runs."""
        selected = self.selected
        self.runs = runs
        self._widths = Widths.of(runs, self.chosen, self._health_of)
        self._table = Table.fit(self._widths, self._table.width)
        self.border_subtitle = summary or f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        self.virtual_size = Size(1, len(runs) + _HEAD)
        ids = [info.id for info in runs]
        self._select(ids.index(selected.id) if selected and selected.id in ids else 0)
        self.post_message(self.Turned())
        self.refresh()

    def action_move(self, lines: int) -> None:
        self._select(self._index + lines)

    def action_page(self, pages: int) -> None:
        self._select(self._index + pages * max(1, self._rows - 1))

    def action_go(self, index: int) -> None:
        self._select(index if index >= 0 else len(self.runs) + index)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None:
            return
        if inside.y < _HEAD:
            if (column := self._table.column_at(inside.x)) is not None:
                self.post_message(self.HeadClicked(column))
            return
        clicked = self.scroll_offset.y + inside.y - _HEAD
        if clicked >= len(self.runs):
            return
        is_second_click = clicked == self._index
        self._select(clicked)
        if is_second_click:
            self.post_message(self.Opened())

    def _select(self, index: int) -> None:
        before = self.selected
        self._index = max(0, min(index, len(self.runs) - 1))
        # The line above the run too, which the heads cover.
        region = Region(0, self._index, 1, 1 + _HEAD)
        self.scroll_to_region(region, animate=False, immediate=True)
        if self.selected != before:
            self.post_message(self.Highlighted())
        self.refresh()

    @property
    def _rows(self) -> int:
        """Runs that fit on the screen."""
        return max(0, self.scrollable_content_region.height - _HEAD)

    def on_resize(self) -> None:
        self._select(self._index)
        self.post_message(self.Turned())

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.post_message(self.Turned())

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        if width != self._table.width:
            self._table = Table.fit(self._widths, width)
        if y < _HEAD:
            return self._strip(self._table.draw_head(self.order) if self.runs else [], width, base)
        index = self.scroll_offset.y + y - _HEAD
        if index >= len(self.runs):
            return Strip.blank(width, base)
        chosen = index == self._index
        if chosen:
            base += Style(bgcolor=self.app.theme_variables.get("line"))
        info = self.runs[index]
        row = [*self._lead(info, chosen), *self._table.draw_row(info, self._health_of(info))]
        return self._strip(row, width, base)

    def _strip(self, row: Row, width: int, base: Style) -> Strip:
        strip = Strip([self._segment(span, base) for span in row])
        if strip.cell_length <= width:
            return strip.adjust_cell_length(width, base)
        return Strip([*strip.crop(0, width - 1), Segment("…", base)])

    def _lead(self, info: RunInfo, chosen: bool) -> Row:
        """The cursor, and the color of a selected run."""
        lead, marks = Span("›" if chosen else " ", "primary", bold=True), self._marks
        if info.id not in marks:
            return [lead, Span("  ")]
        glyph = "■"
        if self.app.no_color or getattr(self.app, "ascii_only", False):
            from grubrics_tui.drawing.plot import glyph_of  # numpy: of no use to most lists

            glyph = glyph_of(marks.ids.index(info.id))
        return [lead, Span(f"{glyph} ", marks.color(info.id), bold=True)]

    def _segment(self, span: Span, base: Style) -> Segment:
        color = self.app.theme_variables.get(span.ink or "foreground")
        return Segment(span.text, base + Style(color=color, bold=span.bold or None))
