"""A widget that draws itself line by line and keeps what it drew until something changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from grubrics_tui.drawing.spans import Row, Span, differences, width_of


class Drawn(Widget):
    """Base of everything that is drawn from spans. Subclasses implement ``draw``."""

    DEFAULT_CSS = "Drawn { height: 1fr; }"

    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._picture: list[Row] = []
        self._strips: list[Strip] | None = None
        self._styles: _Styles | None = None
        self._hint = ""

    def draw(self, width: int, height: int) -> list[Row]:
        """The picture; may have fewer rows than ``height``."""
        raise NotImplementedError

    def redraw(self, hint: str = "") -> None:
        """Draw again; ``hint`` is shown in the middle when the picture is empty.

        Only what differs goes to the terminal: a line that gains a point is a few bytes.
        """
        self._hint = hint
        if not self.is_on_screen:
            self._strips = None  # Drawn when it is shown: until then it costs nothing.
            return
        if self._strips is None:
            self._restyle()
            return
        before, kept = self._picture, self._strips
        self._strips = self._draw(kept)
        changed = list(_differences(before, self._picture, self.size.width))
        if changed:
            self.refresh(*changed)

    def _restyle(self) -> None:
        """Draw everything again, when it is next looked at."""
        self._strips = self._styles = None
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def notify_style_update(self) -> None:
        """The stylesheet gave this widget other colours."""
        super().notify_style_update()
        self._styles = None

    def on_show(self, event: events.Show) -> None:
        self.refresh()  # What was drawn before is still right unless new data came.

    def on_resize(self, event: events.Resize) -> None:
        self._restyle()

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
        self._styles = None
        self._restyle()

    def _draw(self, kept: Sequence[Strip] = ()) -> list[Strip]:
        """``kept`` are the strips of the picture before, for the lines that stay as they are."""
        width, height = self.size
        rows = self.draw(width, height)
        if not any(rows):
            rows = self._hinted(width, height)
        before, self._picture = self._picture, rows[:height]
        if self._styles is None:
            self._styles, kept = _Styles(self.rich_style, self.app.theme_variables), ()
        same = [old == new for old, new in zip(before, self._picture, strict=False)]
        return [
            kept[y] if y < len(kept) and same[y : y + 1] == [True] else self._strip(row)
            for y, row in enumerate(self._picture)
        ]

    def _hinted(self, width: int, height: int) -> list[Row]:
        """The hint in the middle of nothing, where it has room."""
        rows: list[Row] = [[] for _ in range(height)]
        if height and self._hint and width > len(self._hint):
            rows[height // 2] = [Span(self._hint.center(width), "quiet")]
        return rows

    def _strip(self, row: Row) -> Strip:
        assert self._styles is not None
        styles = self._styles
        segments = [Segment(span.text, styles[span.ink, span.paper, span.bold]) for span in row]
        return Strip(segments, width_of(row)).adjust_cell_length(self.size.width, styles.base)


def _differences(before: list[Row], after: list[Row], width: int) -> Iterator[Region]:
    """The parts of each line that have changed."""
    nothing: Row = []
    for y, (old, new) in enumerate(zip_longest(before, after, fillvalue=nothing)):
        for start, end in differences(old, new, width) if old != new else ():
            yield Region(start, y, end - start, 1)


class _Styles(dict[tuple[str, str, bool], Style]):
    """The style of each kind of span in a picture, worked out once."""

    def __init__(self, base: Style, colours: Mapping[str, str]) -> None:
        super().__init__()
        self.base, self._colours = base, colours

    def __missing__(self, kind: tuple[str, str, bool]) -> Style:
        ink, paper, bold = kind
        style = Style(
            color=self._colours.get(ink), bgcolor=self._colours.get(paper), bold=bold or None
        )
        self[kind] = self.base + style
        return self[kind]
