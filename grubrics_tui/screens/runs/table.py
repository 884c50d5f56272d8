"""The list of runs as a table: which columns fit, their heads, and the row of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.doctor.health import Health
from engine.runs import columns
from engine.runs.columns import Column, RunInfo
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span

LEAD = 3
"""Cells before the state: the cursor and the color of a selected run."""
_STATE = 11
_DETAIL = len("unhealthy")
"""Cells that the columns leave to tags, health and reason."""
_ROOMY_DETAIL = 36
"""Cells that they leave to these before a column grows beyond its usual width."""
_WIDE = 100
_LONGEST_ID, _SHORTEST_ID, _SHORTEST_WIDE_ID = 42, 12, 26
_ROOM_OF_ALL = 88
"""Cells of everything but the ID where all columns are shown, some of them cut."""
_DISPENSABLE = 6
"""The rank from which a column is left out before others are cut."""
_ANY_WIDTH = 20
"""The width of a column that declares none and was chosen."""
ALWAYS_SHOWN = ("state", "id")
"""The columns that every table begins with."""


@dataclass(frozen=True)
class Widths:
    """Widths of the columns of some runs, whatever the width of the screen."""

    id: int = 0
    cells: Mapping[Column, int] = field(default_factory=dict)
    """The columns to show, in order; those of which no run has a value are left out."""
    whole: Mapping[Column, int] = field(default_factory=dict)
    """The widths that cut no text, where these are larger."""

    @classmethod
    def of(cls, runs: Sequence[RunInfo], chosen: Sequence[Column] | None = None) -> Widths:
        """``chosen`` are the columns between the ID and the tags; None: those that have a cell."""
        shown = columns.listed_columns(runs) if chosen is None else chosen
        widest = max((len(info.id) for info in runs), default=0)
        whole = {c: _whole_width(c, runs) for c in shown if c.name not in ALWAYS_SHOWN}
        cells = {column: min(width, _most(column)) for column, width in whole.items()}
        return cls(widest, cells, {c: width for c, width in whole.items() if width > cells[c]})


def _whole_width(column: Column, runs: Sequence[RunInfo]) -> int:
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
    columns: Mapping[Column, int]

    @classmethod
    def fit(cls, widths: Widths, width: int) -> Table:
        """Cut and leave out columns until the rest fits ``width`` cells."""
        is_wide = width >= _WIDE
        longest = max(_SHORTEST_WIDE_ID, width - _ROOM_OF_ALL) if is_wide else width // 3
        id_width = max(_SHORTEST_ID, min(widths.id, longest, _LONGEST_ID))
        room = width - LEAD - _STATE - id_width - 2 - _DETAIL
        shown = _fit_cells(widths.cells, room)
        left = width - LEAD - _STATE - 2 - sum(shown.values()) - 2 * len(shown)
        id_width = max(_SHORTEST_ID, min(id_width, left))
        return cls(width, id_width, _grown(shown, widths, left - id_width - _ROOMY_DETAIL))

    def draw_head(self, order: str) -> Row:
        """The heads; ``order`` is the column that sorts the runs, with ``-`` if reversed, or ""."""
        name = order.removeprefix("-")
        sign = "▲" if order and columns.is_ascending(order) else "▼"
        return [
            Span(" " * LEAD),
            *(
                Span(_padded(f"{head} {sign}" if key == name else head, width, right),
                     "primary" if key == name else "quiet", bold=key == name)
                for key, head, width, right in self._places()
            ),
        ]  # fmt: skip

    def draw_row(self, info: RunInfo, health: Health | None) -> Row:
        state = info.state
        glyph, ink = look_of(state.word, health)
        problem = health.phrase if health and health.finding else ""
        detail = state.reason or (f"waiting for {state.waiting_for}" if state.waiting_for else "")
        cells = (
            _padded(_cut(column.text(info), width, right), width, right)
            for column, width in self.columns.items()
            for right in (bool(column.cell and column.cell.right),)
        )
        return [
            Span(f"{glyph} {state.word}".ljust(_STATE), ink, bold=True),
            Span(_cut_middle(info.id, self.id).ljust(self.id + 2)),
            Span("".join(cells), "quiet"),
            Span("".join(f"#{tag} " for tag in info.notes.tags), "accent"),
            Span(f"{problem}  " if problem else "", "warning"),
            Span(detail, "quiet"),
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


def _fit_cells(cells: Mapping[Column, int], room: int) -> dict[Column, int]:
    """The widths of the columns that fit: the least important ones are left out first, then columns
    are cut, then others are left out by rank. The first rank stays."""
    shown, by_rank = dict(cells), sorted(cells, key=_rank)[::-1]

    def excess() -> int:
        return sum(shown.values()) + 2 * len(shown) - room

    for column in by_rank:
        if excess() > 0 and _rank(column) >= _DISPENSABLE:
            del shown[column]
    for column in filter(shown.__contains__, by_rank):
        least = (column.cell and column.cell.least) or shown[column]
        shown[column] -= max(0, min(excess(), shown[column] - least))
    for column in filter(shown.__contains__, by_rank):
        if excess() > 0 and _rank(column) > 1:
            del shown[column]
    for column in filter(shown.__contains__, by_rank[::-1]):
        shown[column] += max(0, min(-excess(), cells[column] - shown[column]))
    return shown


def _grown(cells: Mapping[Column, int], widths: Widths, room: int) -> dict[Column, int]:
    """The widths, with free ``room`` for the texts that are cut: the most important come first."""
    grown = dict(cells)
    for column in sorted(cells, key=_rank):
        if column in widths.whole and cells[column] == widths.cells[column]:
            more = max(0, min(room, widths.whole[column] - cells[column]))
            grown[column] += more
            room -= more
    return grown


def _rank(column: Column) -> int:
    """The rank; a column without a cell was chosen, and goes after the most important ones."""
    return column.cell.rank if column.cell else 2


def _padded(text: str, width: int, right: bool) -> str:
    return (text.rjust(width) if right else text.ljust(width)) + "  "


def _cut(text: str, width: int, right: bool) -> str:
    """A text at the right keeps its end: of a curve and a number, the number."""
    if len(text) <= width:
        return text
    return text[-width:].lstrip() if right else f"{text[: width - 1]}…"


def _cut_middle(name: str, width: int) -> str:
    """Cut the middle of a name: names start alike, and their ends differ."""
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"
