"""An ablation while its runs train and afterwards: the table of its arms, and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content

from engine.base.errors import UsageError
from engine.base.quantities import format_fixed
from engine.run.columns import RunRow
from engine.run.run import Run
from grubrics_tui.drawing.arms import ORDERS, draw_arms, has_failed, sort_rows
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.screens.base import HEIGHTS, CockpitScreen
from grubrics_tui.screens.dialogs.change_runs import confirm_stop
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.navigation import OpenDecision, OpenRun, ShowNotice
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.plans import arm_remarks, format_changes, format_outcome, format_plan_size
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from pathlib import Path

    from engine.doctor.health import HealthBook
    from engine.measure.ablations.plan import AblationPlan
    from engine.measure.ablations.report import AblationReport
    from engine.measure.ablations.table import ArmRow, SeedRun


class ArmTable(RowList["ArmRow"]):
    """The arms of an ablation; the selected one stays selected in another order."""

    HEADS = 1

    def __init__(self) -> None:
        super().__init__()
        self._problems: Mapping[str, str] = {}

    def key_of(self, item: ArmRow) -> str:
        return item.name

    def fill(self, rows: Sequence[ArmRow], problems: Mapping[str, str]) -> None:
        """``problems``: by run, what the doctor found."""
        self._problems = problems
        self.show(rows, "every arm has failed")

    def draw_items(self, shown: range, width: int) -> list[Row]:
        head, *lines = draw_arms(self.items, self.cursor, width, self._problems)
        return [head, *lines[shown.start : shown.stop]]


_POLL_S = 2.0
_SHARE = 0.2
"""Of the time, which long logs may take to read."""


class AblationScreen(CockpitScreen):
    """A thread reads the runs again while the screen is open."""

    BINDINGS = bindings("ablation")
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    AblationScreen {
        #plan, #arm { margin: 0 1; }
        #arms {
            height: 1fr; min-height: 4; margin: 0 1; padding: 0 1;
            border: round $line-focus; border-title-color: $primary; border-subtitle-color: $quiet;
        }
        #detail { height: auto; max-height: 50%; }
    }
    """

    def __init__(self, plan: AblationPlan, root: Path, log: Path) -> None:
        """``root``: the folder of the runs; ``log``: the experiment log."""
        super().__init__()
        self.plan = plan
        self._root, self._log = root, log
        self._report: AblationReport | None = None
        self._problems: Mapping[str, str] = {}
        self._order = ORDERS[0]
        self._hides_failed = False
        self._seed = 0
        self._poller: Poller[str] = Poller()

    def compose(self) -> ComposeResult:
        yield Facts("Ablation", id="plan")
        with Vertical(id="arms"):
            yield ArmTable()
        with VerticalScroll(id="detail", can_focus=False):
            yield Facts("Arm", id="arm")
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#plan", Facts).show([(self.plan.id, "reading the files of the runs ...")])
        self._poller.ask(self.plan.arms[0].name)
        self._poll()

    def on_unmount(self) -> None:
        self._poller.close()

    @work(thread=True, exclusive=True, group="watch", exit_on_error=False)
    def _poll(self) -> None:
        from engine.doctor.health import HealthBook
        from engine.measure.ablations.report import ReportReader

        reader, book = ReportReader(self.plan, self._root), HealthBook(self._root)
        for baseline in self._poller.rounds(Pace(_POLL_S, _SHARE)):
            report = reader.read(baseline)
            self.call_later(self._show_report, report, self._problems)
            problems = dict(_find_problems(report, book, self._poller))
            self.call_later(self._show_report, report, problems)

    def _show_report(self, report: AblationReport, problems: Mapping[str, str]) -> None:
        self._report, self._problems = report, problems
        self.refresh_bindings()
        self._show()

    def _show(self) -> None:
        report = self._report
        if report is None:
            return
        rows = sort_rows(report, self._order)
        shown = [row for row in rows if not (self._hides_failed and has_failed(row))]
        self.query_one(ArmTable).fill(shown, self._problems)
        box = self.query_one("#arms")
        box.border_title = Content(f"Difference from {report.baseline}: {report.measure}")
        hidden = len(rows) - len(shown)
        box.border_subtitle = ", ".join(
            [f"sorted by {self._order}", *([f"{hidden} failed hidden"] if hidden else [])]
        )
        self.query_one("#plan", Facts).show(list(_plan_facts(report)))

    @on(ArmTable.Moved)
    def _show_arm(self) -> None:
        row, facts = self.query_one(ArmTable).selected, self.query_one("#arm", Facts)
        if row is None:
            facts.show([])
            return
        self._seed = max(0, min(self._seed, len(row.runs) - 1))
        facts.border_title = Content(f"Arm {row.name}")
        arm = next(arm for arm in self.plan.arms if arm.name == row.name)
        lines: list[Fact] = [("change", format_changes(arm))]
        lines += [("note", remark) for remark in arm_remarks(row, self.plan.steps)]
        if row.at_equal_hours is not None:
            lines.append(("at equal time", f"{row.at_equal_hours.mean:+.3f}"))
        if row.at_equal_tokens is not None:
            lines.append(("at equal tokens", f"{row.at_equal_tokens.mean:+.3f}"))
        for index, run in enumerate(row.runs):
            text = _format_run(run, self._problems.get(run.run, ""))
            lines.append((f"{'›' if index == self._seed else ' '} seed {run.seed}", text))
        facts.show(lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Pause while it runs, continue while it does not, and write when there is a table."""
        report = self._report
        if action == "pause":
            return report is not None and report.is_running
        if action == "continue_ablation":
            return report is not None and not report.is_running and report.pending > 0
        return True

    def action_arm(self, rows: int) -> None:
        self.query_one(ArmTable).move(rows)

    def action_seed(self, runs: int) -> None:
        self._seed += runs
        self._show_arm()

    def action_open_run(self) -> None:
        from engine.measure.ablations.plan import find_kept

        row = self.query_one(ArmTable).selected
        seed = row.runs[self._seed] if row is not None else None
        run = find_kept(seed.run, self._root) if seed is not None else None
        if run is None:
            self.notify("This run has not started yet.")
            return
        self.post_message(OpenRun(run))

    def action_sort(self) -> None:
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._show()

    def action_hide_failed(self) -> None:
        self._hides_failed = not self._hides_failed
        self._show()

    def action_next_baseline(self) -> None:
        if self._report is not None:
            names = [arm.name for arm in self.plan.arms]
            baseline = names[(names.index(self._report.baseline) + 1) % len(names)]
            self._poller.ask(baseline)

    def action_pause(self) -> None:
        runs = [run for row in self._rows() for run in row.runs]
        active = [
            (Run(self._root / run.run), run.state)
            for run in runs
            if run.state is not None and not run.state.has_ended
        ]
        if active:
            confirm_stop(self, active)
        else:
            self.notify("No run is active at the moment. Try again in a few seconds.")

    def action_continue_ablation(self) -> None:
        self._continue()

    @work(thread=True, exclusive=True, group="changes", exit_on_error=False)
    def _continue(self) -> None:
        from engine.measure.ablations.runner import start_runner, stops_failing

        start_runner(self.plan.folder, self._root, stop=stops_failing(self.plan))
        self.post_message(ShowNotice(f"{self.plan.id} continues in the background."))
        self._poller.wake()

    def action_append_verdict(self) -> None:
        """Ask, and append the table to the experiment log."""
        if (report := self._report) is None:
            return

        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._append(report)

        answer = Answer(YES, "append it", True, f"to {self._log}")
        question = Question(
            f"Append the table of {self.plan.id}?", format_outcome(report), [answer]
        )
        self.app.push_screen(Confirm(question), answered)

    @work(thread=True, exclusive=True, group="changes", exit_on_error=False)
    def _append(self, report: AblationReport) -> None:
        from engine.measure.ablations.report import read_report
        from engine.report.verdict import append_verdict, require_ended

        try:
            # The entry compares with the base, whatever the screen shows.
            of_base = read_report(report.plan, self._root)
            require_ended(of_base)
            entry = append_verdict(self._log, of_base, self._root)
        except UsageError as error:
            self.post_message(ShowNotice(str(error), failed=True))
        else:
            self.post_message(ShowNotice(f"{entry} appended to {self._log}"))

    def action_decide(self) -> None:
        if self._report is not None:
            self.post_message(OpenDecision(format_outcome(self._report)))

    def _rows(self) -> Sequence[ArmRow]:
        return self._report.rows if self._report else ()


def _find_problems(
    report: AblationReport, book: HealthBook, poller: Poller[str]
) -> Iterator[tuple[str, str]]:
    """The runs in which the doctor found something grave."""
    for run in [run for row in report.rows for run in row.runs]:
        if poller.is_stale():
            return
        if run.state is not None:
            health = book.examine(RunRow(run.run, run.state), poller.is_closed)
            if health is not None and health.finding is not None:
                yield run.run, health.phrase


def _plan_facts(report: AblationReport) -> Iterator[Fact]:
    plan = report.plan
    yield "ablation", Content.styled(plan.id, "bold") + Content(f"   {format_plan_size(plan)}")
    if report.is_running:
        state = ("● running", "$success")
    elif not report.pending:
        state = ("✓ finished", "$success")
    else:
        state = ("□ paused", "$warning")
    ended = f"   {report.ended} of {report.total} runs ended"
    yield "state", Content.styled(*state) + Content(ended)


def _format_run(run: SeedRun, problem: str) -> Content:
    """State, step and last value of a run."""
    if run.state is None:
        return Content.styled("◌ planned", "$quiet")
    glyph, ink = look_of(run.state.word, None)
    last = max(run.values, default=None)
    value = "" if last is None else f"  {format_fixed(run.values[last])} at step {last}"
    step = "" if run.state.step is None else f"  step {run.state.step}"
    text = Content.styled(f"{glyph} {run.state.word:9}", f"${ink}") + Content(
        f"{value or step}  {run.run}"
    )
    reason = problem or run.state.reason or ""
    return text + Content.styled(f"  {reason}", "$warning" if problem else "$quiet")
