"""Find a metric or panel by name, preview it, and show it in the live view."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from engine.base.quantities import MISSING
from engine.run.history.plot import Plot
from grubrics_tui.model.history import History
from grubrics_tui.screens.base import Dialog
from grubrics_tui.screens.live.panels import PANELS
from grubrics_tui.settings.actions import bindings
from grubrics_tui.settings.layout import Layout, Slot
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.chart_panels import INKS, metrics_plot
from grubrics_tui.widgets.metric_list import Choice, MetricList

_REFRESH_S = 1.0


class MetricFinder(Dialog[Slot | None]):
    """Returns the slot to show: a panel, or the metrics to pin."""

    WHERE = "metrics"
    BINDINGS = bindings("metrics")
    KEYS = (("enter", "show"), ("tab", "select several for one panel"), ("esc", "cancel"))
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    MetricFinder {
        #box { width: 90%; max-width: 150; height: 80%; max-height: 40; padding: 0 1; }
        Input { border: none; height: 1; padding: 0; background: $panel; margin-bottom: 1; }
        MetricList { width: 3fr; background: $panel; }
        Chart { width: 2fr; margin-left: 2; background: $panel; }
        &.-narrow Chart { display: none; }
        &.-narrow #box, &.-short #box { width: 100%; height: 100%; }
        &.-short Input { margin-bottom: 0; }
    }
    """

    def __init__(self, history: History, layout: Layout) -> None:
        super().__init__()
        self._history, self._layout = history, layout
        self._titles = {panel.TITLE: name for name, panel in PANELS.items()}
        self._marked: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            yield Input(placeholder="type part of the name of a metric or panel", compact=True)
            with Horizontal():
                yield MetricList()
                yield Chart()
        box.border_title = "Find a metric"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._show_matches()
        self.set_interval(_REFRESH_S, self._show_matches)

    @on(Input.Changed)
    def _type(self) -> None:
        self._show_matches(cursor=0)

    @on(Input.Submitted)
    def _submit(self) -> None:
        if self._marked:
            self.dismiss(Slot(metrics=tuple(self._marked)))
        elif name := self.query_one(MetricList).selected_name:
            panel = self._panels.get(name)
            self.dismiss(Slot(panel) if panel else Slot(metrics=(name,)))

    def action_pick(self, rows: int) -> None:
        self.query_one(MetricList).move(rows)

    def action_mark(self) -> None:
        """Add the selected metric to the pinned panel, or remove it."""
        name = self.query_one(MetricList).selected_name
        if name in self._marked:
            self._marked.remove(name)
        elif name and name not in self._panels and len(self._marked) < len(INKS):
            self._marked.append(name)
        self._show_matches()

    @property
    def _panels(self) -> dict[str, str]:
        """Built-in panels of this kind of run, name by title; metrics of the same name win."""
        built_in = {slot.panel for slot in self._layout.slots}
        metrics = set(self._history.columns.names)
        return {t: n for t, n in self._titles.items() if n in built_in and t not in metrics}

    def _show_matches(self, *, cursor: int | None = None) -> None:
        """What matches now: the run may have logged other metrics meanwhile."""
        names = [*self._panels, *self._history.columns.names]
        choices = [self._choice(name) for name in ranked(self.query_one(Input).value, names)]
        self.query_one(MetricList).show(choices, "no match", cursor=cursor)

    @on(MetricList.Moved)
    def _preview(self) -> None:
        total = len(self._panels) + len(self._history.columns.names)
        listed = self.query_one(MetricList)
        self.query_one("#box").border_subtitle = f"{len(listed.items)} of {total}"
        selected = listed.selected_name
        names = tuple(self._marked) or ((selected,) if selected else ())
        shown = tuple(name for name in names if name not in self._panels)
        self.query_one(Chart).show(
            lambda: metrics_plot(self._history, shown) if shown else Plot(),
            (shown, self._history.version),
            "a built-in panel" if names and not shown else MISSING,
        )

    def _choice(self, name: str) -> Choice:
        shown = {slot.name for slot in self._layout.shown}
        shown |= {metric for slot in self._layout.shown for metric in slot.metrics}
        panel = self._panels.get(name)
        if panel is not None:
            return Choice(name, note="panel" if panel in shown else "hidden", shown=panel in shown)
        column = self._history.series(name)
        return Choice(name, column, shown=name in shown, marked=name in self._marked)
