"""The full values of one row of a comparison, of every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from engine.base.text import format_config_value
from engine.reports.compare import Comparison
from engine.reports.differences import Cell, Difference
from engine.reports.measures import Entry, Measure, format_value
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Fact, Facts


class WholeValues(ModalScreen[None]):
    """Shows the full value of every run and its origin."""

    WHERE = "whole_values"
    BINDINGS = bindings("whole_values")

    DEFAULT_CSS = """
    WholeValues {
        align: center middle;
        VerticalScroll {
            width: 100; max-width: 96%; height: auto; max-height: 90%; background: $panel;
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

    def action_back(self) -> None:
        self.dismiss()

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
