"""The full values of one row of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from engine.reports.differences import Difference, text_of
from engine.reports.measures import Measure
from grubrics_tui.drawing.comparison import format_value
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

    def __init__(self, row: Measure | Difference, ids: Sequence[str], inks: Sequence[str]) -> None:
        super().__init__()
        self._row, self._ids, self._inks = row, ids, inks

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Facts("")

    def on_mount(self) -> None:
        facts: list[Fact] = []
        for number, name in enumerate(self._ids):
            facts.append(("", Content.styled(name, f"bold ${self._inks[number]}")))
            facts.append(("", _format_value(self._row, number)))
        self.query_one(Facts).border_title = Content(self._row.name)
        self.query_one(Facts).show(facts)

    def action_back(self) -> None:
        self.dismiss()


def _format_value(row: Measure | Difference, number: int) -> Content:
    if isinstance(row, Measure):
        step = row.steps[number]
        value = format_value(row.values[number], row.unit)
        return Content(f"  {value}{'' if step is None else f'  at step {step}'}")
    cell = row.cells[number]
    if cell is None:
        return Content.styled("  not set", "$quiet")
    origin = Content.styled(f"   {cell.origin}", "$quiet") if cell.origin else Content("")
    return Content(f"  {text_of(cell.value)}") + origin
