"""The list of runs: which columns fit, their heads, the row of a run, and the widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from engine.base.quantities import format_count
from engine.doctor.health import Health
from engine.run import columns
from engine.run.columns import Column, RunRow
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span, fitted
from grubrics_tui.settings.comparison_marks import ComparisonMarks
from grubrics_tui.text.terminal_text import cut_name, fit_cell, head_of_cut
from grubrics_tui.widgets.row_list import RowList

HealthOf = Callable[[RunRow], Health | None]

LEAD = 3
"""Cells before the state: the cursor and the color of a selected run."""
_STATE = 11
_DETAIL, _WIDE_DETAIL = 16, 30
"""Cells that the columns leave to tags, health and reason, as far as some run has them."""
_WIDE = 100
_LONGEST_ID, _SHORTEST_ID, _SHORTEST_WIDE_ID = 42, 12, 26
_ROOM_OF_ALL = 88
"""Cells of everything but the ID where all columns are shown, some of them cut."""
_ANY_WIDTH = 20
"""The width of a column that declares none and was chosen."""
ALWAYS_SHOWN = ("state", "id")
"""The columns that every table begins with."""


@dataclass(frozen=True)
class Widths:
    """Widths of the columns of some runs, whatever the width of the screen."""

    ids: tuple[str, ...] = ()
    detail: int = 0
    """Of the longest tags, health and reason."""
    cells: Mapping[Column, int] = field(default_factory=dict)
    """The columns to show, in order; those of which no run has a value are left out."""
    whole: Mapping[Column, int] = field(default_factory=dict)
    """The widths that cut no text, where these are larger."""

    @classmethod
    def of(
        cls,
        runs: Sequence[RunRow],
        chosen: Sequence[Column] | None = None,
        health_of: HealthOf = lambda _: None,
    ) -> Widths:
        """``chosen`` are the columns between the ID and the tags; None: those that have a cell."""
        shown = columns.listed_columns(runs) if chosen is None else chosen
        details = (sum(len(s.text) for s in _detail(info, health_of(info))) for info in runs)
        whole = {c: _whole_width(c, runs) for c in shown if c.name not in ALWAYS_SHOWN}
        cells = {column: min(width, _most(column)) for column, width in whole.items()}
        grown = {c: width for c, width in whole.items() if width > cells[c]}
        return cls(tuple(info.id for info in runs), max(details, default=0), cells, grown)


def _whole_width(column: Column, runs: Sequence[RunRow]) -> int:
    """The width that cuts no text, with room for the sign of the order in the head."""
    cell = column.cell
    if cell is not None and cell.width is not None:
        return cell.width
    widest = max((len(column.text(info)) for info in runs), default=0)
    return max(len(column.head) + 2, widest)


def _most(column: Column) -> int:
    """The usual width, which a column exceeds only where there is free room."""
    return max(len(column.head) + 2, column.cell.most if column.cell else _ANY_WIDTH)


@dataclass(frozen=True)
class Table:
    """The columns that fit a screen, and where they are."""

    width: int
    id: int
    id_head: int
    """How much of a longer ID stands before the cut."""
    columns: Mapping[Column, int]

    @classmethod
    def fit(cls, widths: Widths, width: int) -> Table:
        """Cut and leave out columns until the rest fits ``width`` cells."""
        is_wide = width >= _WIDE
        longest = max(_SHORTEST_WIDE_ID, width - _ROOM_OF_ALL) if is_wide else width // 3
        widest = max(map(len, widths.ids), default=0)
        id_width = max(_SHORTEST_ID, min(widest, longest, _LONGEST_ID))
        detail = min(widths.detail, _WIDE_DETAIL if is_wide else _DETAIL)
        room = width - LEAD - _STATE - id_width - 2 - detail
        shown = columns.fit_cells(widths.cells, room)
        left = width - LEAD - _STATE - 2 - sum(shown.values()) - 2 * len(shown)
        id_width = max(_SHORTEST_ID, min(id_width, left))
        grown = _grown(shown, widths, left - id_width - widths.detail)
        return cls(width, id_width, head_of_cut(widths.ids, id_width), grown)

    def draw_head(self, order: str) -> Row:
        """The heads; ``order`` is the column that sorts the runs, with ``-`` if reversed, or ""."""
        name = order.removeprefix("-")
        sign = "▲" if order and columns.is_ascending(order) else "▼"
        return [
            Span(" " * LEAD),
            *(
                Span(f"{fit_cell(f'{head} {sign}' if key == name else head, width, right)}  ",
                     "primary" if key == name else "quiet", bold=key == name)
                for key, head, width, right in self._places()
            ),
            Span("why", "quiet"),
        ]  # fmt: skip

    def draw_row(self, info: RunRow, health: Health | None) -> Row:
        state = info.state
        glyph, ink = look_of(state.word, health)
        cells = (
            f"{fit_cell(column.text(info), width, right)}  "
            for column, width in self.columns.items()
            for right in (bool(column.cell and column.cell.right),)
        )
        return [
            Span(f"{glyph} {state.word}".ljust(_STATE), ink, bold=True),
            Span(cut_name(info.id, self.id, self.id_head).ljust(self.id + 2)),
            Span("".join(cells), "quiet"),
            *_detail(info, health),
        ]

    def column_at(self, x: int) -> str | None:
        """The name of the column at a cell of the line; None right of the columns."""
        end = LEAD
        for name, _, width, _ in self._places():
            end += width + 2
            if x < end:
                return name
        return None

    @property
    def names(self) -> list[str]:
        """The names of the columns from left to right."""
        return [name for name, *_ in self._places()]

    def _places(self) -> Iterator[tuple[str, str, int, bool]]:
        """Name, head, width, and whether it is aligned to the right, of each column."""
        yield "state", "state", _STATE - 2, False
        yield "id", "run", self.id, False
        for column, width in self.columns.items():
            yield column.name, column.head, width, bool(column.cell and column.cell.right)


def _detail(info: RunRow, health: Health | None) -> Row:
    """The tags, what the doctor found, and why the run is in its state."""
    state = info.state
    problem = health.phrase if health and health.finding else ""
    reason = state.reason or (f"waiting for {state.waiting_for}" if state.waiting_for else "")
    return [
        Span("".join(f"#{tag} " for tag in info.notes.tags), "accent"),
        Span(f"{problem}  " if problem else "", "warning"),
        Span(reason, "quiet"),
    ]


def _grown(cells: Mapping[Column, int], widths: Widths, room: int) -> dict[Column, int]:
    """The widths, with free ``room`` for the texts that are cut: the most important come first."""
    grown = dict(cells)
    for column in sorted(cells, key=columns.rank_of):
        if column in widths.whole and cells[column] == widths.cells[column]:
            more = max(0, min(room, widths.whole[column] - cells[column]))
            grown[column] += more
            room -= more
    return grown


class RunList(RowList[RunRow], can_focus=True):
    """The runs below the heads of their columns; a click on a head asks to sort by it."""

    DEFAULT_CSS = """
    RunList {
        height: 1fr; overflow-y: auto; padding: 0 1; background: $background;
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

    HEADS = 1

    @dataclass
    class HeadClicked(Message):
        """The head of a column was clicked."""

        column: str

    def __init__(
        self,
        marks: ComparisonMarks | None = None,
        health_of: HealthOf = lambda _: None,
    ) -> None:
        """``health_of`` returns the health of a finished run."""
        super().__init__()
        self._health_of = health_of
        self.border_title = "Runs"
        self._marks = ComparisonMarks() if marks is None else marks
        self.order = ""
        """The column that sorts the runs, with ``-`` if reversed; it only marks the head."""
        self.chosen: Sequence[Column] | None = None
        """The columns to show; None: the default ones."""
        self._widths = Widths()

    @property
    def columns(self) -> list[str]:
        """The names of the columns on the screen, from left to right."""
        return self._table(self.scrollable_size.width).names

    @property
    def in_sight(self) -> Sequence[RunRow]:
        """The run under the cursor, then the visible ones."""
        first = self.scroll_offset.y
        drawn = self.items[first : first + self.room]
        return [*self.items[self.cursor : self.cursor + 1], *drawn]

    def fill(self, runs: Sequence[RunRow], summary: str = "") -> None:
        """``summary`` is shown in the frame instead of the number of runs."""
        self._widths = Widths.of(runs, self.chosen, self._health_of)
        self.border_subtitle = summary or format_count(len(runs), "run")
        self.show(runs)

    def key_of(self, item: RunRow) -> str:
        return item.id

    def action_move(self, runs: int) -> None:
        self.move(runs)

    def action_page(self, pages: int) -> None:
        self.move(pages * max(1, self.room - 1))

    def action_go(self, index: int) -> None:
        self.select(index)

    def on_click(self, event: events.Click) -> None:
        """Besides what a click on a run does."""
        inside = event.get_content_offset(self)
        if inside is not None and inside.y < self.HEADS:
            column = self._table(self.scrollable_size.width).column_at(inside.x)
            if column is not None:
                self.post_message(self.HeadClicked(column))

    def draw_items(self, shown: range, width: int) -> list[Row]:
        table = self._table(width)
        rows = [fitted(table.draw_head(self.order), width)]
        for index in shown:
            info, chosen = self.items[index], index == self.cursor
            row = [*self._lead(info, chosen), *table.draw_row(info, self._health_of(info))]
            rows.append(fitted(row, width, "line" if chosen else ""))
        return rows

    def _table(self, width: int) -> Table:
        return Table.fit(self._widths, width)

    def _lead(self, info: RunRow, chosen: bool) -> Row:
        """The cursor, and the color of a selected run."""
        lead, marks = Span("›" if chosen else " ", "primary", bold=True), self._marks
        if info.id not in marks:
            return [lead, Span("  ")]
        glyph = "■"
        if self.colorless:
            from grubrics_tui.drawing.plot import glyph_of  # numpy: of no use to most lists

            glyph = glyph_of(marks.ids.index(info.id))
        return [lead, Span(f"{glyph} ", marks.color(info.id), bold=True)]
