"""A widget that draws itself line by line and keeps what it drew until something changed."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from grubrics_tui.drawing.spans import Row, Span, width_of


class Drawn(Widget):
    """Base of everything that is drawn from spans. Subclasses implement ``draw``."""

    DEFAULT_CSS = "Drawn { height: 1fr; }"

    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._strips: list[Strip] | None = None
        self._hint = ""

    def draw(self, width: int, height: int) -> list[Row]:
        """The picture; may have fewer rows than ``height``."""
        raise NotImplementedError

    def redraw(self, hint: str = "") -> None:
        """Draw again; ``hint`` is shown in the middle when the picture is empty."""
        self._hint = hint
        self._strips = None
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def on_resize(self, event: events.Resize) -> None:
        self.redraw(self._hint)

    def render_line(self, y: int) -> Strip:
        if self._strips is None:
            self._strips = self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.rich_style)

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal cannot show braille and block characters."""
        return bool(getattr(self.app, "ascii_only", False))

    @property
    def colourless(self) -> bool:
        """Whether shapes have to say what colours would."""
        return self.ascii_only or self.app.no_color

    def _theme_changed(self, theme: Theme) -> None:
        self.redraw(self._hint)

    def _draw(self) -> list[Strip]:
        width, height = self.size
        rows = self.draw(width, height)
        if not any(rows) and self._hint and width > len(self._hint):
            middle = height // 2
            rows = [[] for _ in range(height)]
            rows[middle] = [Span(self._hint.center(width), "quiet")]
        return [self._strip(row) for row in rows[:height]]

    def _strip(self, row: Row) -> Strip:
        base = self.rich_style
        segments = [Segment(span.text, base + self._style(span)) for span in row]
        return Strip(segments, width_of(row)).adjust_cell_length(self.size.width, base)

    def _style(self, span: Span) -> Style:
        colours = self.app.theme_variables
        return Style(
            color=colours.get(span.ink), bgcolor=colours.get(span.paper), bold=span.bold or None
        )
