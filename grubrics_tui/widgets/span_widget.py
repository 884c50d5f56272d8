"""Widgets that draw themselves line by line and keep their lines until something changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from grubrics_tui.drawing.spans import Row, Span, width_of

if TYPE_CHECKING:
    from typing import Self

    _Widget = Widget
else:
    _Widget = object  # Textual looks for its stylesheet along the first base that is a widget.


class CachedLines(_Widget):
    """Mixin, before the widget's class: keeps the finished lines until the widget is refreshed.

    Whenever one widget changes, Textual asks every widget in the rectangle around all changes for
    its lines, and computes border, padding, background and filters again.
    """

    _finished: tuple[Region, Size, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._finished is None or self._finished[:2] != (crop, self.size):
            self._finished = (crop, self.size, super().render_lines(crop))
        return self._finished[2]

    def refresh(self, *regions: Region, **options: Any) -> Self:
        self._finished = None
        return super().refresh(*regions, **options)


class SpanWidget(CachedLines, Widget):
    """Base of everything that is drawn from spans. Subclasses implement ``draw``."""

    DEFAULT_CSS = "SpanWidget { height: 1fr; }"

    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._picture: list[Row] = []
        self._strips: list[Strip] | None = None
        self._styles: _Styles | None = None
        self._hint = ""
        self._drawn_for = Size(0, 0)
        self._is_stale = False

    def draw(self, width: int, height: int) -> list[Row]:
        """The picture; may have fewer rows than ``height``."""
        raise NotImplementedError

    def redraw(self, hint: str = "") -> None:
        """Draw again; ``hint`` is shown in the middle when the picture is empty.

        The compositor draws only lines that differ.
        """
        self._hint = hint
        if not self.is_on_screen:
            # Drawn when it is shown: until then it costs nothing.
            self._strips, self._is_stale = None, True
            return
        if self._strips is None:
            self._restyle()
            return
        old_strips = self._strips
        self._strips = self._draw(old_strips)
        changed = [
            Region(0, y, self.size.width, 1)
            for y, (old, new) in enumerate(zip_longest(old_strips, self._strips))
            if old is not new
        ]
        if changed:
            self.refresh(*changed)

    def _restyle(self) -> None:
        """Draw everything again at the next refresh."""
        self._strips = self._styles = None
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._restyle())

    def notify_style_update(self) -> None:
        """The stylesheet gave this widget other colors."""
        super().notify_style_update()
        self._styles = None

    def on_show(self, event: events.Show) -> None:
        if self._is_stale:  # Else what was drawn before is still right.
            self.refresh()

    def refresh(self, *regions: Region, **options: Any) -> Self:
        self._is_stale = False
        return super().refresh(*regions, **options)

    def on_resize(self, event: events.Resize) -> None:
        """Comes too when a widget is shown again in its old size."""
        if self.scrollable_size != self._drawn_for:
            self._restyle()

    def render_line(self, y: int) -> Strip:
        if self._strips is None:
            self._strips = self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self._drawn_for.width, self.rich_style)

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal cannot show braille and block characters."""
        return bool(getattr(self.app, "ascii_only", False))

    @property
    def colorless(self) -> bool:
        """Whether shapes must replace colors."""
        return self.ascii_only or self.app.no_color

    def _draw(self, old_strips: Sequence[Strip] = ()) -> list[Strip]:
        """``old_strips`` are those of the previous picture; unchanged lines reuse them."""
        width, height = self._drawn_for = self.scrollable_size
        rows = self.draw(width, height)
        if not any(rows):
            rows = self._hinted(width, height)
        old_rows, self._picture = self._picture, rows[:height]
        if self._styles is None:
            self._styles, old_strips = _Styles(self.rich_style, self.app.theme_variables), ()
        is_same = [old == new for old, new in zip(old_rows, self._picture, strict=False)]
        return [
            old_strips[y]
            if y < len(old_strips) and is_same[y : y + 1] == [True]
            else self._strip(row)
            for y, row in enumerate(self._picture)
        ]

    def _hinted(self, width: int, height: int) -> list[Row]:
        """The hint in the middle of nothing, where it has room."""
        rows: list[Row] = [[] for _ in range(height)]
        lines = wrap(self._hint, max(1, width - 2), break_long_words=False)
        if len(lines) <= height and all(len(line) < width for line in lines):
            for row, line in enumerate(lines, (height - len(lines) + 1) // 2):
                rows[row] = [Span(line.center(width), "quiet")]
        return rows

    def _strip(self, row: Row) -> Strip:
        assert self._styles is not None
        styles = self._styles
        segments = [Segment(span.text, styles[span.ink, span.paper, span.bold]) for span in row]
        return Strip(segments, width_of(row)).adjust_cell_length(self._drawn_for.width, styles.base)


class _Styles(dict[tuple[str, str, bool], Style]):
    """The style of each kind of span, computed once."""

    def __init__(self, base: Style, colors: Mapping[str, str]) -> None:
        super().__init__()
        self.base, self._colors = base, colors

    def __missing__(self, kind: tuple[str, str, bool]) -> Style:
        ink, paper, bold = kind
        style = Style(
            color=self._colors.get(ink), bgcolor=self._colors.get(paper), bold=bold or None
        )
        self[kind] = self.base + style
        return self[kind]
