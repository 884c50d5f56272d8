"""Runs side by side: their metrics as charts, results and differences as a table."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive

from engine.base.errors import UsageError
from engine.logs.formats.external_run import ExternalRun
from engine.report.compare import Comparer, Comparison, check_groups, metric_names
from engine.report.groups import (
    Group,
    Grouping,
    common_beginning,
    find_groups,
    group_each,
    group_line,
)
from engine.report.run_record import RunRecord, distinct_ids, open_reader
from engine.run.history.plot import Line, Plot
from engine.run.run import Run
from grubrics_tui.drawing.plot import glyph_of
from grubrics_tui.model.poller import Poller
from grubrics_tui.screens.base import HEIGHTS, WIDTHS
from grubrics_tui.screens.charts import ChartScreen
from grubrics_tui.screens.compare.charts import CompareCharts, SmallChart, first_metrics
from grubrics_tui.screens.compare.table import CompareTable
from grubrics_tui.screens.navigation import OpenConfig
from grubrics_tui.settings.actions import bindings
from grubrics_tui.settings.comparison_marks import SERIES, ComparisonMarks
from grubrics_tui.text.terminal_text import cut_name
from grubrics_tui.widgets.chart_base import ChartBase
from grubrics_tui.widgets.key_footer import KeyFooter

_POLL_S, _BEHIND_S = 1.0, 0.05
"""Pauses of the thread, and while it is still reading long histories."""
_LONGEST_LABEL, _LONG_BEGINNING = 28, 8
_ALONG = 16


class CompareScreen(ChartScreen):
    """A thread reads the files of the runs, including those that still grow."""

    BINDINGS = bindings("compare")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    CompareScreen {
        .box {
            border: round $line; border-title-color: $quiet; border-subtitle-color: $quiet;
            padding: 0 1; margin: 0 1;
        }
        #curves { height: 1fr; }
        #figures { height: 1fr; }
        .box.-current { border: round $line-focus; border-title-color: $primary; }
        &.-narrow .box, &.-short .box, &.-zoomed .box { display: none; height: 1fr; }
        &.-narrow .box.-current, &.-short .box.-current, &.-zoomed .box.-current { display: block; }
    }
    """

    metric: reactive[str] = reactive("")
    baseline: reactive[int] = reactive(0)
    equal_steps: reactive[bool] = reactive(False)
    deltas: reactive[bool] = reactive(False)
    shell: reactive[bool] = reactive(False)
    current: reactive[str] = reactive("curves")
    alone: reactive[bool] = reactive(False)
    by_seed: reactive[bool] = reactive(False)

    def __init__(
        self,
        runs: Sequence[Run | ExternalRun],
        marks: ComparisonMarks,
        grouping: Grouping | None = None,
    ) -> None:
        super().__init__()
        ids = distinct_ids(runs)
        self.records = [RunRecord(run, id) for run, id in zip(runs, ids, strict=True)]
        self.comparison: Comparison | None = None
        self._marks = marks
        self._grouping = grouping or find_groups
        self._comparer = Comparer(self.records, self._grouping)
        self._poller: Poller[None] = Poller()

    def compose(self) -> ComposeResult:
        with Vertical(id="curves", classes="box -current"):
            yield CompareCharts()
        with Vertical(id="figures", classes="box"):
            yield CompareTable()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#figures").border_title = "Results and differences"
        self._poll()

    def on_unmount(self) -> None:
        self._poller.close()

    @work(thread=True, exclusive=True, group="watch", exit_on_error=False)
    def _poll(self) -> None:
        readers = [open_reader(record.run) for record in self.records]
        states: list[object] = [None] * len(readers)
        are_shown = False  # The diagnoses can wait until the numbers are on the screen.
        self._poller.wake()
        for _ in self._poller.rounds():
            is_new = is_behind = False
            for index, reader in enumerate(readers):
                if self._poller.is_closed():
                    return
                news = reader.poll(examine=are_shown)
                state = news.update.state.evolve(heartbeat=None, beat=None)
                if news.is_news or state != states[index]:
                    self.call_later(self.records[index].add, news)
                    is_new, states[index] = True, state
                is_behind = is_behind or news.update.read_share < 1
            if is_new:
                self.call_later(self.show)
            self._poller.next_in(_POLL_S if are_shown and not is_behind else _BEHIND_S)
            are_shown = are_shown or not is_behind

    def show(self) -> None:
        """Compare what was read of the runs so far."""
        if not self.metric:
            usual = first_metrics(metric_names(self.records))
            self.set_reactive(CompareScreen.metric, usual[0] if usual else "")
        self._compare()

    def watch_metric(self) -> None:
        self._compare()

    watch_baseline = watch_equal_steps = watch_deltas = watch_shell = watch_metric

    def watch_alone(self) -> None:
        self.query_one(CompareCharts).show_alone(self.alone)
        self._show_titles()

    def watch_by_seed(self) -> None:
        self._comparer.grouping = group_each if self.by_seed else self._grouping
        self.set_reactive(CompareScreen.baseline, 0)
        self._compare()

    def _compare(self) -> None:
        if not any(record.version for record in self.records):
            return
        try:
            check_groups(self._comparer.groups)
        except UsageError as error:
            self._refuse(error)
            return
        comparison = self._comparer.compare(self.baseline, equal_steps=self.equal_steps)
        self.comparison, inks = comparison, self.inks
        names = metric_names(self.records)
        versions = (*inks, comparison.until, *(record.version for record in self.records))
        self.query_one(CompareCharts).show(
            first_metrics(names), self.metric, self._plot, versions, "no run has logged a step"
        )
        heads = list(zip(labels(comparison.names), inks, strict=True))
        self.query_one(CompareTable).fill(comparison, heads, deltas=self.deltas, shell=self.shell)
        self._show_titles()

    def _refuse(self, error: UsageError) -> None:
        """Too many columns: group the runs again, or leave."""
        if self.by_seed:
            self.by_seed = False
        else:
            self.app.pop_screen()
        self.notify(str(error), severity="error", markup=False)

    @property
    def inks(self) -> list[str]:
        """The color of each group: that of its first run's mark, if no group before it has it."""
        colors: list[str] = []
        for group in self._comparer.groups:
            preferred = self._marks.color(self.records[group.members[0]].id)
            free = (color for color in (preferred, *SERIES) if color not in colors)
            colors.append(next(free, preferred))
        return colors

    def _plot(self, metric: str) -> Plot:
        groups, until = self._comparer.groups, self.comparison.until if self.comparison else None
        names = labels([group.name for group in groups])
        lines = zip(groups, names, self.inks, strict=True)
        return Plot(tuple(self._line(metric, until, *line) for line in lines))

    def _line(self, metric: str, until: int | None, group: Group, label: str, ink: str) -> Line:
        records = [self.records[index] for index in group.members]
        columns = [record.columns.get(metric) for record in records]
        return group_line(columns, label, ink, clock=records[0].columns.times, until=until)

    @on(CompareTable.Moved)
    def _show_titles(self) -> None:
        """Show in the frames the metric, the steps and the baseline of the comparison."""
        comparison = self.comparison
        if comparison is None:
            return
        curves, figures = self.query_one("#curves"), self.query_one("#figures")
        curves.border_title = Content(self.metric) if self.alone else self._legend()
        ends = (
            "each run at its last step"
            if comparison.until is None
            else f"up to step {comparison.until}"
        )
        missing = (
            " (no step that all have)" if self.equal_steps and comparison.common is None else ""
        )
        kinds = f"different kinds: {', '.join(comparison.kinds)}; " if comparison.kinds else ""
        curves.border_subtitle = Content(f"{kinds}{ends}{missing}")
        basis = "more than the baseline" if self.deltas else "baseline"
        figures.border_title = Content(f"{basis} {comparison.names[comparison.baseline]}")
        spread = (
            "± 95% over the seeds" if comparison.has_intervals else "no intervals: one run each"
        )
        position = self.query_one(CompareTable).position
        figures.border_subtitle = f"{spread}, {ends}{missing}, {position}"

    def _legend(self) -> Content:
        """The names of the columns in their colors, for all charts."""
        in_shapes = self.query_one(CompareTable).colorless
        names = labels([group.name for group in self._comparer.groups])
        return Content("  ").join(
            Content.styled(f"{glyph_of(number) if in_shapes else '━'} {name}", f"${ink}")
            for number, (name, ink) in enumerate(zip(names, self.inks, strict=True))
        )

    def current_chart(self) -> ChartBase | None:
        is_single = any(self.has_class(name) for name in ("-narrow", "-short", "-zoomed"))
        if is_single and self.current != "curves":
            return None
        return self.query_one(CompareCharts).chosen_chart()

    @on(SmallChart.Clicked)
    def _choose_clicked(self, message: SmallChart.Clicked) -> None:
        self.metric = message.metric or self.metric

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "zoom":
            return not (self.has_class("-narrow") or self.has_class("-short"))
        return super().check_action(action, parameters)

    def watch_current(self, current: str) -> None:
        for box in self.query(".box"):
            box.set_class(box.id == current, "-current")
        self.refresh_bindings()

    def action_other_panel(self) -> None:
        self.current = "figures" if self.current == "curves" else "curves"

    def action_zoom(self) -> None:
        self.toggle_class("-zoomed")

    def action_table_row(self, rows: int) -> None:
        if self.view.table and self.current == "curves":
            self.action_chart_row(rows)
        else:
            self.query_one(CompareTable).move(rows)

    def action_table_end(self) -> None:
        if self.view.table and self.current == "curves":
            self.action_chart_end(True)
        else:
            self.query_one(CompareTable).select(-1)

    def action_table_runs(self, runs: int) -> None:
        self.query_one(CompareTable).sideways(runs)

    def action_table_along(self, way: int) -> None:
        self.query_one(CompareTable).along(way * _ALONG)

    def action_next_baseline(self) -> None:
        self.baseline = (self.baseline + 1) % len(self._comparer.groups)

    def action_equal_steps(self) -> None:
        self.equal_steps = not self.equal_steps

    def action_alone(self) -> None:
        self.alone = not self.alone

    def action_by_seed(self) -> None:
        self.by_seed = not self.by_seed

    def action_deltas(self) -> None:
        self.deltas = not self.deltas

    def action_shell(self) -> None:
        self.shell = not self.shell

    def action_whole_values(self) -> None:
        from grubrics_tui.screens.compare.table import WholeValues

        row, comparison = self.query_one(CompareTable).selected, self.comparison
        if row is not None and row.source is not None and comparison is not None:
            self.app.push_screen(WholeValues(row.source, comparison, self.inks))

    def action_open_config(self) -> None:
        """The configuration of the baseline."""
        group = self._comparer.groups[self.baseline]
        self.post_message(OpenConfig(self.records[group.members[0]].run))

    def action_find_metric(self) -> None:
        from grubrics_tui.screens.compare.charts import ChooseMetric

        def choose(metric: str | None) -> None:
            self.metric = metric or self.metric

        # Each metric of the run that has logged it most often.
        columns = {
            name: max((record.columns.get(name) for record in self.records), key=len)
            for name in metric_names(self.records)
        }
        self.app.push_screen(ChooseMetric(columns, self.metric), choose)

    def action_metric(self, count: int) -> None:
        """The next metric in alphabetical order."""
        names = metric_names(self.records)
        if self.metric in names:
            self.metric = names[(names.index(self.metric) + count) % len(names)]

    def action_back(self) -> None:
        if self.clear_view():
            return
        if self.has_class("-zoomed"):
            self.remove_class("-zoomed")
        else:
            self.app.pop_screen()


def labels(names: Sequence[str]) -> list[str]:
    """Distinct names that are short enough for a legend, without what all of them begin with."""
    start = max(map(common_beginning(names).rfind, "-_./")) + 1
    if len(names) > 1 and start >= _LONG_BEGINNING:
        names = [name[start:] for name in names]
    width = _LONGEST_LABEL
    while True:
        short = [cut_name(name, width) for name in names]
        if len(set(short)) == len(names) or width >= max(map(len, names)):
            return short
        width += 8
