"""A run as it goes on, or as it went."""

from __future__ import annotations

import threading
from dataclasses import replace

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Grid
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Footer
from textual.worker import get_current_worker

from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from engine.watch.live import RunWatch, Update
from grubrics_tui.actions import bindings
from grubrics_tui.history import History
from grubrics_tui.navigation import OpenLogEntry, OpenVerdict
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.confirm_stop import ConfirmStop
from grubrics_tui.screens.sizes import HEIGHTS, WIDTHS
from grubrics_tui.widgets.banner import Banner
from grubrics_tui.widgets.judge_panel import JudgePanel
from grubrics_tui.widgets.log_panel import LogPanel
from grubrics_tui.widgets.log_tail import LogTail
from grubrics_tui.widgets.loss_panel import LossPanel
from grubrics_tui.widgets.optimiser_panel import OptimiserPanel
from grubrics_tui.widgets.panel import Panel
from grubrics_tui.widgets.panel_tabs import PanelTabs
from grubrics_tui.widgets.reward_panel import RewardPanel
from grubrics_tui.widgets.run_header import RunHeader
from grubrics_tui.widgets.system_panel import SystemPanel
from grubrics_tui.widgets.time_panel import TimePanel

_POLL_S = 0.5

GRPO_PANELS: tuple[type[Panel], ...] = (RewardPanel, JudgePanel, TimePanel, SystemPanel, LogPanel)
SFT_PANELS: tuple[type[Panel], ...] = (LossPanel, OptimiserPanel, TimePanel, SystemPanel, LogPanel)


class LiveScreen(CockpitScreen):
    """Five panels in a grid, or one at a time where the terminal is small.

    A thread polls the run's files and posts what is new; widgets are only touched here.
    """

    BINDINGS = bindings("live")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    LiveScreen {
        #panels {
            grid-size: 2 3; grid-columns: 1fr 1fr; grid-rows: 13fr 12fr 9fr;
            margin: 0 1; overflow: hidden;
        }
        LogPanel { column-span: 2; }
        PanelTabs { display: none; }
        &.-narrow, &.-short, &.-zoomed {
            #panels { grid-size: 1 1; grid-columns: 1fr; grid-rows: 1fr; }
            Panel { display: none; }
            Panel.-current { display: block; }
            LogPanel { column-span: 1; }
            PanelTabs { display: block; }
        }
    }
    """

    current: reactive[int] = reactive(0)

    class Updated(Message):
        """A run's files gained something."""

        def __init__(self, update: Update) -> None:
            super().__init__()
            self.update = update

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run
        self.history = History()
        self._kind = str(run.read_manifest().get("kind", "grpo"))
        self._panels = SFT_PANELS if self._kind == "sft" else GRPO_PANELS
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        yield RunHeader(self.run.id, self._kind)
        yield Banner()
        yield PanelTabs([panel.TITLE for panel in self._panels])
        with Grid(id="panels"):
            for panel in self._panels:
                yield panel()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        for number, panel in enumerate(self.query(Panel), start=1):
            panel.label(number)
        self._poll()

    def on_unmount(self) -> None:
        self._left.set()

    @work(thread=True, exclusive=True, group="watch", exit_on_error=False)
    def _poll(self) -> None:
        worker, watch = get_current_worker(), RunWatch(self.run)
        before: RunState | None = None
        while not worker.is_cancelled and not self._left.is_set():
            update = watch.poll()
            if _is_news(update, before):
                self.post_message(self.Updated(update))
            before = update.state
            self._left.wait(_POLL_S)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer offers what makes sense now: stop a run that runs, judge one that ended."""
        ended = self.history.state is not None and self.history.state.has_ended
        if action == "stop":
            return not ended
        if action in ("verdict", "log_entry"):
            return ended
        if action == "zoom":
            return not (self.has_class("-narrow") or self.has_class("-short"))
        return True

    @on(Updated)
    def _show(self, message: Updated) -> None:
        before = self.history.state
        self.history.add(message.update)
        if before is None or before.has_ended != message.update.state.has_ended:
            self.refresh_bindings()
        self.query_one(RunHeader).show(self.history)
        self.query_one(Banner).show(self.history)
        for panel in self.query(Panel):
            panel.show(self.history)

    def watch_current(self, current: int) -> None:
        for index, panel in enumerate(self.query(Panel)):
            panel.set_class(index == current, "-current")
        self.query_one(PanelTabs).show(current)

    def action_panel(self, index: int) -> None:
        self.current = index

    def action_next_panel(self) -> None:
        self.current = (self.current + 1) % len(self._panels)

    def action_previous_panel(self) -> None:
        self.current = (self.current - 1) % len(self._panels)

    def action_zoom(self) -> None:
        self.toggle_class("-zoomed")

    def action_scroll_log(self, lines: int) -> None:
        self.query_one(LogTail).move(lines)
        self.query_one(LogPanel).show_place()

    def action_follow_log(self) -> None:
        self.query_one(LogTail).follow()
        self.query_one(LogPanel).show_place()

    def action_stop(self) -> None:
        if (state := self.history.state) is not None:
            self.app.push_screen(ConfirmStop(self.run, state), self._say_stopping)

    def _say_stopping(self, answer: str | None) -> None:
        if answer:
            self.notify(answer, markup=False)

    def action_verdict(self) -> None:
        self.post_message(OpenVerdict(self.run))

    def action_log_entry(self) -> None:
        self.post_message(OpenLogEntry(self.run))

    async def action_back(self) -> None:
        if self.has_class("-zoomed"):
            self.remove_class("-zoomed")
        else:
            await self.run_action("app.leave_run")


def _is_news(update: Update, before: RunState | None) -> bool:
    """Whether a look brought more than a new heartbeat."""
    if before is None or update.steps or update.console or update.system or update.events:
        return True
    return replace(update.state, heartbeat=None) != replace(before, heartbeat=None)
