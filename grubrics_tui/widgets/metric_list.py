"""Metrics and panels to choose from, each with its last value and a sparkline."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from engine.base.quantities import format_number
from engine.base.text import sparkline as draw_sparkline
from engine.base.ticks import Range
from engine.run.history.columns import Column
from grubrics_tui.drawing.plot import means
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.widgets.row_list import RowList

_BLOCKS, _ASCII = "▁▂▃▄▅▆", "_.-=+#"
_SPARK, _VALUE, _MARK = 16, 11, 2


@dataclass(frozen=True, eq=False)
class Choice:
    """``note`` describes a choice that is not a metric; ``shown``: a panel shows it already."""

    name: str
    column: Column | None = None
    note: str = ""
    shown: bool = False
    marked: bool = False


class MetricList(RowList[Choice]):
    """One row per choice."""

    IS_CENTERED = True

    def key_of(self, item: Choice) -> str:
        return item.name

    @property
    def selected_name(self) -> str:
        """The name of the choice under the cursor; empty if there is none."""
        return self.selected.name if self.selected else ""

    def draw_items(self, shown: range, width: int) -> list[Row]:
        return [self._row(self.items[n], n == self.cursor, width) for n in shown]

    def _row(self, choice: Choice, selected: bool, width: int) -> Row:
        spark = _SPARK if width >= 60 else 0
        room = max(8, width - _MARK - _VALUE - spark - 2)
        mark = (
            ("+" if choice.marked else "*" if choice.shown else " ")
            if self.ascii_only
            else ("✚" if choice.marked else "●" if choice.shown else " ")
        )
        value = choice.note if choice.column is None else format_number(choice.column.last()[1])
        paper = "line" if selected else ""
        return [
            Span(f"{mark} ", "primary", paper),
            Span(_fitted(choice.name, room), "primary" if selected else "", paper, selected),
            Span(value.rjust(_VALUE), "foreground" if choice.column else "quiet", paper),
            Span("  ", "", paper),
            Span(self._spark(choice.column, spark), "series-1", paper),
        ]

    def _spark(self, column: Column | None, width: int) -> str:
        if column is None or not width:
            return " " * width
        return sparkline(column, width, _ASCII if self.ascii_only else _BLOCKS)


def sparkline(column: Column, width: int, levels: str = _BLOCKS) -> str:
    """A metric in one line of ``width`` characters; blank where it has no value."""
    if not len(column):
        return " " * width
    span = Range(float(column.steps[0]), max(float(column.steps[-1]), float(column.steps[0]) + 1))
    values = means(column.steps, column.values, span, width)
    return draw_sparkline(values.tolist(), levels)


def _fitted(name: str, room: int) -> str:
    """Exactly ``room`` cells; a longer name loses its start, because names differ at the end."""
    while cell_len(name) > room:
        name = "…" + name[max(2, 1 + cell_len(name) - room) :]
    return set_cell_size(name, room)
