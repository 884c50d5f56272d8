"""The results and differences of groups of runs as a table with a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from engine.base.text import format_config_value
from engine.report.compare import Comparison
from engine.report.differences import Cell, Difference
from engine.report.measures import Entry, Measure, format_value
from grubrics_tui.drawing.comparison import Grid, TableLine, head, line, table_lines
from grubrics_tui.drawing.plot import glyph_of
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.row_list import RowList


class CompareTable(RowList[TableLine]):
    """The names of the groups stay above the rows."""

    HEADS = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heads: Sequence[tuple[str, str]] = ()
        self._comparison: Comparison | None = None
        self._first_run, self._shift = 0, 0
        self._options = (False, False)

    def is_heading(self, item: TableLine) -> bool:
        return item.is_heading

    def key_of(self, item: TableLine) -> object:
        return item.is_heading, item.label

    def fill(
        self,
        comparison: Comparison,
        heads: Sequence[tuple[str, str]],
        *,
        deltas: bool,
        shell: bool = False,
    ) -> None:
        """``heads``: label and color of each group; ``deltas`` and ``shell``: see
        ``table_lines``."""
        if (comparison, (deltas, shell)) == (self._comparison, self._options):
            return
        self._heads, self._comparison, self._options = heads, comparison, (deltas, shell)
        star = "*" if self.ascii_only else "★"
        lines = table_lines(comparison, deltas=deltas, shell=shell, star=star)
        self.show(lines, cursor=self.find_selected(lines, default=self.cursor))

    @property
    def position(self) -> str:
        """``row 3 of 40``, and the visible runs if not all fit."""
        grid = self._grid(self.size.width)
        names = self._comparison.names if self._comparison else ()
        columns = f"columns {grid.first + 1} to {grid.places[-1] + 1}, "
        runs = "" if grid.shown >= len(names) else columns
        along = f"cell {grid.shift + 1}, " if grid.shift else ""
        return f"{runs}{along}{super().position}"

    def sideways(self, runs: int) -> None:
        count = len(self._comparison.groups) if self._comparison else 0
        shown = self._grid(self.size.width).shown
        self._first_run = max(0, min(self._first_run + runs, count - shown))
        self.changed()

    def along(self, cells: int) -> None:
        """Scroll values that are wider than their columns."""
        self._shift = max(0, self._grid(self.size.width).shift + cells)
        self._shift = self._grid(self.size.width).shift
        self.changed()

    def draw_items(self, shown: range, width: int) -> list[Row]:
        grid = self._grid(width)
        keys = [self._glyph(number) for number in range(len(self._heads))]
        rows = [head(self._heads, keys, grid)]
        for number in shown:
            spans = line(self.items[number], grid, width, chosen=number == self.cursor)
            # The background of the cursor extends to the end of the line.
            end = Span(" " * max(0, width - width_of(spans)), "", spans[-1].paper)
            rows.append([*spans, end])
        return rows

    def _glyph(self, number: int) -> str:
        """The character that marks a run besides its color; the baseline has a diamond."""
        assert self._comparison is not None
        if number == self._comparison.baseline:
            return "=" if self.ascii_only else "◆"
        return glyph_of(number) if self.colorless else "━"

    def _grid(self, width: int) -> Grid:
        count = len(self._comparison.groups) if self._comparison else 0
        return Grid.of(self.items, count, width, self._first_run, self._shift)


class WholeValues(Dialog[None]):
    """Shows the full value of every run and its origin."""

    WHERE = "whole_values"
    BINDINGS = bindings("whole_values")

    DEFAULT_CSS = """
    WholeValues {
        VerticalScroll {
            width: 100; max-width: 96%; height: auto; max-height: 90%; border: none;
        }
        Facts { background: $panel; border: round $line-focus; border-title-color: $primary; }
    }
    """

    def __init__(
        self, row: Measure | Difference, comparison: Comparison, inks: Sequence[str]
    ) -> None:
        super().__init__()
        self._row, self._comparison, self._inks = row, comparison, inks

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Facts("")

    def on_mount(self) -> None:
        facts: list[Fact] = []
        for number, name in enumerate(self._comparison.names):
            facts.append(("", Content.styled(name, f"bold ${self._inks[number]}")))
            facts += [("", content) for content in self._values(number)]
        self.query_one(Facts).border_title = Content(self._row.name)
        self.query_one(Facts).show(facts)

    def _values(self, number: int) -> Iterator[Content]:
        """Yield the value of a group, and those of its runs."""
        row = self._row
        if isinstance(row, Difference):
            yield _format_cell(row.cells[number])
            return
        entry = row.entries[number]
        yield _format_entry(entry, row)
        group = self._comparison.groups[number]
        if len(group.members) > 1 and row.unit != "text":
            for index, unit in zip(group.members, group.units, strict=True):
                value = format_value(entry.samples.get(unit), row.unit)
                yield Content.styled(f"    {self._comparison.ids[index]}  {value}", "$quiet")


def _format_entry(entry: Entry, row: Measure) -> Content:
    value = format_value(entry.value, row.unit)
    if (estimate := entry.estimate) is not None:
        low, high = format_value(estimate.low, row.unit), format_value(estimate.high, row.unit)
        return Content(f"  {value}  95% interval {low} to {high}")
    return Content(f"  {value}{'' if entry.step is None else f'  at step {entry.step}'}")


def _format_cell(cell: Cell | None) -> Content:
    if cell is None:
        return Content.styled("  not set", "$quiet")
    origin = Content.styled(f"   {cell.origin}", "$quiet") if cell.origin else Content("")
    return Content(f"  {format_config_value(cell.value)}") + origin
