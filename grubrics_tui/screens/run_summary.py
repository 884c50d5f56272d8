"""The summary of an ended run: outcome, first and last values, checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.worker import get_current_worker

from engine.base.jsonl import line
from engine.base.quantities import format_size
from engine.run.history.live import RunWatch
from engine.run.kinds import SFT
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.model.history import History
from grubrics_tui.model.run_source import kind_of
from grubrics_tui.screens.base import HEIGHTS, ScrolledScreen
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenConfig,
    OpenDecision,
    OpenLogEntry,
    OpenRun,
)
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.plans import format_saved
from grubrics_tui.widgets.chart_panels import LossPanel, RewardPanel
from grubrics_tui.widgets.facts import Fact, Facts, format_state
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.panel import Panel

if TYPE_CHECKING:
    from engine.doctor.health import Health
    from engine.report.entry import LogEntry
    from engine.run.checkpoints.find import CheckpointReport, SavedCheckpoint


class RunSummaryScreen(ScrolledScreen):
    """Shows the same values as the log entry, which is drafted from the same files."""

    BINDINGS = bindings("run_summary")
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    RunSummaryScreen {
        VerticalScroll { height: auto; max-height: 70%; }
        Facts { margin: 0 1; }
        Panel { margin: 0 1; height: 1fr; }
        &.-short {
            VerticalScroll { max-height: 100%; height: 1fr; }
            Panel { display: none; }
        }
    }
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self._kind = kind_of(run)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Facts("Run summary", id="summary")
            yield Facts("Checkpoint", id="checkpoint")
        yield LossPanel() if self._kind == SFT else RewardPanel()
        yield KeyFooter()

    def on_mount(self) -> None:
        panel = self.query_one(Panel)
        panel.border_title = panel.TITLE
        self.query_one("#summary", Facts).show(
            [("run", self.run.id), ("", "reading the run files ...")]
        )
        self._summarize()

    @work(thread=True, exit_on_error=False)
    def _summarize(self) -> None:
        from engine.doctor.health import health_of
        from engine.report.entry import drafted
        from engine.run.checkpoints.find import check_checkpoint, list_checkpoints

        worker, watch, history = get_current_worker(), RunWatch(self.run), History()
        while history.read_share < 1 and not worker.is_cancelled:
            history.add(watch.poll())
        health = health_of(self.run, history.state, lambda: worker.is_cancelled)
        entry = drafted(self.run, health)
        saved = list_checkpoints(self.run)
        self.call_later(self._show, history, entry, check_checkpoint(self.run), saved, health)

    def _show(
        self,
        history: History,
        entry: LogEntry,
        report: CheckpointReport,
        saved: Sequence[SavedCheckpoint],
        health: Health | None,
    ) -> None:
        assert history.state is not None
        self.query_one(Panel).show(history)
        self.query_one("#summary", Facts).show(summary_facts(history.state, entry, health))
        checkpoint = self.query_one("#checkpoint", Facts)
        listed: list[Fact] = [("saved", format_saved(saved))] if saved else []
        checkpoint.show([*checkpoint_facts(report), *listed])
        # Where a command saves is not known.
        checkpoint.display = report.complete or not self.run.is_command

    def action_curves(self) -> None:
        self.post_message(OpenRun(self.run))

    def action_open_config(self) -> None:
        self.post_message(OpenConfig(self.run))

    def action_log_entry(self) -> None:
        self.post_message(OpenLogEntry(self.run))

    def action_relaunch(self) -> None:
        self.post_message(LaunchAgain(self.run.id))

    def action_decide(self) -> None:
        self.post_message(OpenDecision(f"Run {self.run.id}"))


def summary_facts(run_state: RunState, entry: LogEntry, health: Health | None = None) -> list[Fact]:
    """The state, then the lines of the entry's result, split at their label."""
    state = format_state(run_state.word, health)
    reason = run_state.reason or ""
    facts: list[Fact] = [("run", entry.run), ("state", state + Content(f"   {reason}".rstrip()))]
    if entry.duration:
        facts.append(("duration", entry.duration))
    for item in entry.result.splitlines()[1:]:
        label, _, text = item.removeprefix("- ").partition(": ")
        if label.endswith(" curve"):  # The panel below draws it.
            continue
        facts.append((label, text) if text else ("reached", label))
    return facts


def checkpoint_facts(report: CheckpointReport) -> list[Fact]:
    status = ("✓ complete", "$success") if report.complete else ("✗ none complete", "$error")
    if report.moved:
        status = ("! moved by a later run", "$warning")
    facts: list[Fact] = [("state", Content.styled(status[0], f"bold {status[1]}"))]
    facts.append(("details", line(report.message) or ""))
    if report.complete:
        facts.append(("size", format_size(report.size_bytes)))
    return facts
