"""A framed text that scrolls: rows of spans, laid out for the current width."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grubrics_tui.drawing.spans import Row, Span

Layout = Callable[[int], list[Row]]
"""The rows for a width in cells."""


class ScrollText(ScrollView):
    """Draws only the rows in sight."""

    DEFAULT_CSS = """
    ScrollText {
        height: 1fr; width: 1fr; padding: 0 1; overflow-x: hidden; overflow-y: auto;
        scrollbar-size: 1 1; scrollbar-gutter: stable;
        border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
        &.-current { border: round $line-focus; border-title-color: $primary; }
    }
    """

    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._layout: Layout = lambda width: []
        self._rows: list[Row] = []

    def show(self, layout: Layout, *, keep_scroll: bool = False) -> None:
        """Show another text from its start; ``keep_scroll`` stays at the same row."""
        self._layout = layout
        if not keep_scroll:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self._lay_out()

    def move(self, rows: int) -> None:
        self.scroll_relative(y=rows, animate=False, immediate=True, force=True)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def on_resize(self) -> None:
        self._lay_out()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        row = self._rows[index] if index < len(self._rows) else []
        segments = [Segment(span.text, base + self._style(span)) for span in row]
        return Strip(segments).adjust_cell_length(width, base)

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0:
            self._rows = self._layout(width)
            self.virtual_size = Size(width, len(self._rows))
            self.refresh()

    def _style(self, span: Span) -> Style:
        colors = self.app.theme_variables
        return Style(
            color=colors.get(span.ink), bgcolor=colors.get(span.paper), bold=span.bold or None
        )
