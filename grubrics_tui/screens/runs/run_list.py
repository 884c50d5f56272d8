"""The runs of a folder, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.doctor.health import Health
from engine.runs import columns
from engine.runs.columns import RunInfo
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.settings.comparison_marks import ComparisonMarks

_LEAD, _STATE = 3, 11
_WIDE = 100
_LONGEST_ID = 42


@dataclass(frozen=True)
class Widths:
    """Widths of the columns that depend on the listed runs."""

    id: int = 0
    cells: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[RunInfo]) -> Widths:
        fitted = [c for c in columns.COLUMNS if c.cell is not None and c.cell.width is None]
        return cls(
            max((len(info.id) for info in runs), default=0),
            {c.name: max((len(c.text(info)) for info in runs), default=0) for c in fitted},
        )


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
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "go(0)", show=False),
        Binding("end", "go(-1)", show=False),
    ]

    class Highlighted(Message):
        """The run under the cursor has changed."""

    class Opened(Message):
        """The run under the cursor was clicked."""

    class Turned(Message):
        """Other runs may be visible."""

    def __init__(
        self,
        marks: ComparisonMarks | None = None,
        health_of: Callable[[RunInfo], Health | None] = lambda _: None,
    ) -> None:
        """``health_of`` returns the health of a finished run."""
        super().__init__()
        self._health_of = health_of
        self.border_title = "Runs"
        self.runs: Sequence[RunInfo] = ()
        self._marks = ComparisonMarks() if marks is None else marks
        self._index = 0
        self._widths = Widths()

    @property
    def selected(self) -> RunInfo | None:
        return self.runs[self._index] if self._index < len(self.runs) else None

    @property
    def in_sight(self) -> Sequence[RunInfo]:
        """The run under the cursor, then the visible ones."""
        first = round(self.scroll_offset.y)
        drawn = self.runs[first : first + self.scrollable_content_region.height]
        return [*self.runs[self._index : self._index + 1], *drawn]

    def show(self, runs: Sequence[RunInfo], summary: str = "") -> None:
        """``summary`` is shown in the frame instead of the number of runs."""
        selected = self.selected
        self.runs = runs
        self._widths = Widths.of(runs)
        self.border_subtitle = summary or f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        self.virtual_size = Size(1, len(runs))
        ids = [info.id for info in runs]
        self._select(ids.index(selected.id) if selected and selected.id in ids else 0)
        self.post_message(self.Turned())
        self.refresh()

    def action_move(self, lines: int) -> None:
        self._select(self._index + lines)

    def action_page(self, pages: int) -> None:
        self._select(self._index + pages * max(1, self.scrollable_content_region.height - 1))

    def action_go(self, index: int) -> None:
        self._select(index if index >= 0 else len(self.runs) + index)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        clicked = None if inside is None else self.scroll_offset.y + inside.y
        if clicked is None or clicked >= len(self.runs):
            return
        is_second_click = clicked == self._index
        self._select(clicked)
        if is_second_click:
            self.post_message(self.Opened())

    def _select(self, index: int) -> None:
        before = self.selected
        self._index = max(0, min(index, len(self.runs) - 1))
        self.scroll_to_region(Region(0, self._index, 1, 1), animate=False, immediate=True)
        if self.selected != before:
            self.post_message(self.Highlighted())
        self.refresh()

    def on_resize(self) -> None:
        self._select(self._index)
        self.post_message(self.Turned())

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.post_message(self.Turned())

    def render_line(self, y: int) -> Strip:
        index, width = self.scroll_offset.y + y, self.scrollable_content_region.width
        base = self.rich_style
        if index >= len(self.runs):
            return Strip.blank(width, base)
        chosen = index == self._index
        if chosen:
            base += Style(bgcolor=self.app.theme_variables.get("panel"))
        info = self.runs[index]
        row = [*self._lead(info, chosen), *_row(info, width, self._widths, self._health_of(info))]
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


def _row(info: RunInfo, width: int, widths: Widths, health: Health | None = None) -> Row:
    state, wide = info.state, width >= _WIDE
    glyph, ink = look_of(state.word, health)
    cells = "".join(_cells(info, widths, wide))
    room = width - _LEAD - _STATE - 2 - len(cells)
    names = min(widths.id, _LONGEST_ID if wide else max(12, room))
    problem = health.phrase if health and health.finding else ""
    detail = state.reason or (f"waiting for {state.waiting_for}" if state.waiting_for else "")
    return [
        Span(f"{glyph} {state.word}".ljust(_STATE), ink, bold=True),
        Span(_cut_middle(info.id, names).ljust(names + 2)),
        Span(cells, "quiet"),
        Span("".join(f"#{tag} " for tag in info.notes.tags), "accent"),
        Span(f"{problem}  " if problem else "", "warning"),
        Span(detail, "quiet"),
    ]


def _cells(info: RunInfo, widths: Widths, wide: bool) -> Iterator[str]:
    """The columns between a run's id and its tags, each with two spaces after it."""
    for column in columns.COLUMNS:
        cell = column.cell
        if cell is None or not (wide or cell.narrow):
            continue
        text, width = column.text(info), cell.width or widths.cells.get(column.name, 0)
        if not wide and cell.narrow:
            text, width = cell.narrow(info), cell.narrow_width or width
        yield (text.rjust(width) if cell.right else text.ljust(width)) + "  "


def _cut_middle(name: str, width: int) -> str:
    """Cut the middle of a name: names start alike, and their ends differ."""
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"
