"""A panel of charts: one, or several small ones side by side."""

from __future__ import annotations

from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Grid

from grubrics_tui.drawing.values import Fact, Plot, Values, Writer
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import MISSING
from grubrics_tui.widgets.cached_lines import Still
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel, waiting_hint

_SMALLEST = (16, 5)
"""Cells below which a chart says nothing."""


class ChartGrid(Still, Grid):
    """Small charts beside and above each other."""


class ChartPanel(Panel):
    """Subclasses say how many charts there are and what each plots; the first is the main one."""

    DEFAULT_CSS = """
    ChartGrid { grid-gutter: 0 2; height: 1fr; overflow: hidden; }
    """

    CHARTS = 1

    _is_bare = True
    """Whether no chart has had anything to show: then the first has the panel for its hint."""

    def plot(self, history: History, number: int) -> Plot:
        """What chart ``number`` shows. Called when the chart is drawn."""
        raise NotImplementedError

    def hint(self, history: History, number: int) -> str:
        """What chart ``number`` says while it has nothing to show."""
        return waiting_hint(history) if number == 0 else MISSING

    def compose(self) -> ComposeResult:
        with ChartGrid():
            for _ in range(self.CHARTS):
                yield Chart()

    def show(self, history: History) -> None:
        if self._is_bare and not all(
            self.plot(history, number).is_empty for number in range(self.CHARTS)
        ):
            self._is_bare = False
            self._arrange()
        for number, chart in enumerate(self.query(Chart)):
            chart.show(
                partial(self.plot, history, number),
                history.version,
                self.hint(history, number),
                grows_since=history.rewrites,
            )

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Small charts stand in rows as there is room; those that find none wait for a zoom."""
        columns, rows = arranged(1 if self._is_bare else self.CHARTS, *self.content_size)
        self.query_one(ChartGrid).styles.grid_size_columns = columns
        for number, chart in enumerate(self.query(Chart)):
            chart.display = number < columns * rows


def arranged(count: int, width: int, height: int) -> tuple[int, int]:
    """Columns and rows of ``count`` charts: as few columns as leave each row high enough."""
    rows = max(1, min(count, height // _SMALLEST[1]))
    columns = max(1, min(-(-count // rows), width // _SMALLEST[0]))
    return columns, rows


def fact_of(
    history: History,
    name: str,
    label: str,
    write: Writer,
    *,
    tone: str = "foreground",
    quiet_at_zero: bool = False,
) -> Fact:
    """A metric that is read out beside the lines."""
    column = history.series(name)
    return Fact(column.steps, column.values, label, write, tone=tone, quiet_at_zero=quiet_at_zero)


def values_of(history: History, name: str, label: str, write: Writer) -> Values:
    """A metric as what a legend reads out of a band."""
    column = history.series(name)
    return Values(column.steps, column.values, label, write)
