"""The metrics of a comparison: small charts side by side, one alone, and a list to choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Input

from engine.base.quantities import format_number
from engine.run.history import metrics
from engine.run.history.columns import Column
from engine.run.history.plot import Plot
from grubrics_tui.drawing.axis import format_place
from grubrics_tui.drawing.plot import glyph_of, x_range
from grubrics_tui.drawing.spans import Row, Span, clipped
from grubrics_tui.drawing.view import View
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.chart_panels import (
    ChartGrid,
    arranged,
)
from grubrics_tui.widgets.metric_list import Choice, MetricList

_MOST = 9
_SMALLEST = (34, 6)
Build = Callable[[str], Plot]


def first_metrics(names: Sequence[str]) -> list[str]:
    """The metrics that are shown first, of those that the runs have logged."""
    return (metrics.usual_metrics(frozenset(names)) or list(names))[:_MOST]


class SmallChart(Chart):
    """A chart whose head is the metric and a value of each line; the table of results names the
    lines."""

    @dataclass
    class Clicked(Message):
        """The chart was clicked."""

        metric: str

    metric = ""
    is_chosen = False
    is_alone = False

    def head(self, plot: Plot, view: View, width: int) -> list[Row]:
        if self.is_alone:
            return super().head(plot, view, width)
        name = clipped(self.metric, width - 3)
        row: Row = [Span(f"{name}  ", "primary" if self.is_chosen else "quiet", bold=True)]
        in_shapes = self._legend_style.drawn_in_ascii(len(plot.lines))
        for number, line in enumerate(plot.lines):
            newest = float(line.x[-1]) if line.x.size else None
            place = newest if view.cursor is None else view.cursor
            found = None if place is None else line.at(place)[1]
            value = format_number(found, 3)
            key = f"{glyph_of(number)} " if in_shapes else ""
            row.append(Span(f"{key}{value} ", line.ink))
        x = x_range(plot, view)
        if view.cursor is not None and x is not None:
            row.append(Span(f" at {format_place(view.cursor, view.axis, x.size)}", "cursor"))
        return [_fitting(row, width)]

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self.metric))


def _fitting(row: Row, width: int) -> Row:
    """The spans that fit, then ``…``: a number that is cut would be another number."""
    fitting, room = Row(), width
    for index, span in enumerate(row):
        is_last = index == len(row) - 1
        if (len(span.text.rstrip()) if is_last else len(span.text) + len("…")) > room:
            return [*fitting, Span("…", "quiet")]
        fitting.append(span)
        room -= len(span.text)
    return fitting


class CompareCharts(Container):
    """As many charts as fit, the chosen metric among them; or that one alone."""

    DEFAULT_CSS = """
    CompareCharts ChartGrid { grid-gutter: 0 2; height: 1fr; overflow: hidden; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._metrics: list[str] = []
        self._chosen, self._is_alone = "", False
        self._build: Build = lambda metric: Plot()
        self._version: object = None
        self._hint = "reading the run files"

    def compose(self) -> ComposeResult:
        with ChartGrid():
            for _ in range(_MOST):
                yield SmallChart()

    def on_mount(self) -> None:
        self._arrange()

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def show(
        self, metrics: Sequence[str], chosen: str, build: Build, version: object, hint: str
    ) -> None:
        """``build`` makes the plot of a metric, again whenever ``version`` has changed."""
        self._metrics = [*metrics] if chosen in metrics or not chosen else [chosen, *metrics]
        self._chosen, self._build = chosen, build
        self._version, self._hint = version, hint
        self._arrange()

    def show_alone(self, is_alone: bool) -> None:
        self._is_alone = is_alone
        self._arrange()

    def chosen_chart(self) -> SmallChart | None:
        """The chart that keys act on."""
        charts = [chart for chart in self.query(SmallChart) if chart.display]
        return next((chart for chart in charts if chart.is_chosen), charts[0] if charts else None)

    def _arrange(self) -> None:
        """Give every chart that fits a metric; the others are hidden."""
        wanted = [self._chosen] if self._is_alone else self._metrics
        columns, rows = arranged(max(1, len(wanted)), *self.size, smallest=_SMALLEST)
        shown = self._around_chosen(wanted, columns * rows)
        self.query_one(ChartGrid).styles.grid_size_columns = columns
        for number, chart in enumerate(self.query(SmallChart)):
            chart.display = number < max(1, len(shown))
            if number < len(shown):
                self._show_metric(chart, shown[number], is_alone=len(shown) == 1)
            elif number == 0:
                chart.show(Plot, None, self._hint)

    def _around_chosen(self, wanted: Sequence[str], room: int) -> Sequence[str]:
        """The part of the metrics that fits and contains the chosen one."""
        index = wanted.index(self._chosen) if self._chosen in wanted else 0
        first = max(0, min(index - room + 1, len(wanted) - room))
        return wanted[first : first + room]

    def _show_metric(self, chart: SmallChart, metric: str, *, is_alone: bool) -> None:
        chart.metric, chart.is_chosen = metric, metric == self._chosen
        chart.is_alone = is_alone
        version = (metric, chart.is_chosen, is_alone, self._version)
        chart.show(partial(self._build, metric), version, f"no run has logged {metric}")


class ChooseMetric(Dialog[str]):
    """Returns a metric, or None. ``metrics`` are shown with the values of one run."""

    WHERE = "choose"
    BINDINGS = bindings("choose")
    KEYS = (("enter", "show"), ("esc", "cancel"))

    DEFAULT_CSS = """
    ChooseMetric {
        & > Vertical { width: 80; max-width: 100%; height: 80%; max-height: 30; padding: 0 1; }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $panel; }
        Input { margin-bottom: 1; }
        MetricList { background: $panel; }
    }
    """

    def __init__(self, metrics: Mapping[str, Column], shown: str) -> None:
        super().__init__()
        self._metrics, self._shown = metrics, shown

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            yield Input(placeholder="type part of a metric name", compact=True)
            yield MetricList()
        box.border_title = "Choose a metric"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._find("")

    @on(Input.Changed)
    def _type(self, message: Input.Changed) -> None:
        self._find(message.value)

    @on(Input.Submitted)
    def _submit(self) -> None:
        if name := self.query_one(MetricList).selected_name:
            self.dismiss(name)

    def action_pick(self, rows: int) -> None:
        self.query_one(MetricList).move(rows)

    def _find(self, query: str) -> None:
        found = ranked(query, self._metrics)
        index = found.index(self._shown) if not query and self._shown in found else 0
        choices = [Choice(name, self._metrics[name], shown=name == self._shown) for name in found]
        self.query_one(MetricList).show(choices, "no match", cursor=index)
