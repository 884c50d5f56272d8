"""The live view of a run: its state, findings and panels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.reactive import reactive
from textual.timer import Timer

from engine.base.errors import UsageError
from engine.run.finding import Finding, launchable
from engine.run.history.live import Update
from engine.run.kinds import no_rollouts
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.model.history import History
from grubrics_tui.model.poller import Poller
from grubrics_tui.model.run_doctor import RunDoctor, find_evidence_line
from grubrics_tui.model.run_source import (
    Watched,
    console_of,
    kind_of,
    layout_of,
    source_of,
    watcher,
)
from grubrics_tui.screens.base import HEIGHTS, WIDTHS, show_from_thread
from grubrics_tui.screens.charts import ChartScreen
from grubrics_tui.screens.dialogs.change_runs import (
    confirm_fix,
    confirm_reproduction,
    confirm_resume,
    confirm_stop,
)
from grubrics_tui.screens.live.banner import Banner, RunHeader, first_alert, next_steps
from grubrics_tui.screens.live.panel_grid import PanelGrid, PanelTabs
from grubrics_tui.screens.live.panels import external_layout
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenConfig,
    OpenFindings,
    OpenLog,
    OpenLogEntry,
    OpenRollouts,
    OpenRun,
    OpenSummary,
)
from grubrics_tui.settings.actions import bindings, first_keys, is_changing, needs_of
from grubrics_tui.settings.layout import Layout, LayoutFile, Slot, room_for
from grubrics_tui.settings.settings import Settings, panels_for
from grubrics_tui.widgets.chart_base import ChartBase
from grubrics_tui.widgets.chart_panels import JudgePanel
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.log_view import LogView
from grubrics_tui.widgets.panel import Panel

_FOOTER_S = 0.3
_READING_S = 0.25
"""Time between two redraws while a history is read."""


class LiveScreen(ChartScreen):
    """The panels of a run, as many at a time as fit.

    A thread polls the files of the run and posts what is new.
    """

    BINDINGS = bindings("live")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    panels: reactive[Layout] = reactive(Layout(()))
    zoomed: reactive[bool] = reactive(False)

    def __init__(
        self,
        run: Watched,
        settings: Settings | None = None,
        layouts: LayoutFile | None = None,
    ) -> None:
        super().__init__()
        self.run = run
        self.history = History()
        self._settings = settings or Settings()
        self._kind = kind_of(run)
        self._is_command = isinstance(run, Run) and run.is_command
        self._layout_kind = layout_of(run)
        self._default_panels = panels_for(self._settings, self._kind.name if self._kind else "")
        self._layouts = layouts or LayoutFile()
        self._poller: Poller[None] = Poller()
        self._doctor = RunDoctor(run)
        self._drawn = 0.0
        self._was_diagnosed = False
        self._ended_attempt = 0
        """The attempt whose resume point was searched."""
        self._resume_step: int | None = None
        self._error_line: tuple[Path, int] | None = None
        self._offers: tuple[object, ...] = ()
        self._footer_timer: Timer | None = None
        self.set_reactive(
            LiveScreen.panels,
            external_layout(run)
            if not isinstance(run, Run)
            else self._layouts.load(self._layout_kind, self._default_panels),
        )
        self.set_reactive(LiveScreen.view, replace(self.view, smoothing=self._settings.smoothing))

    def compose(self) -> ComposeResult:
        yield RunHeader(self.run.id, self._layout_kind, source_of(self.run))
        yield Banner()
        yield PanelTabs()
        yield PanelGrid(self.panels, self._set_price)
        yield KeyFooter()

    def _set_price(self, panel: Panel) -> None:
        if isinstance(panel, JudgePanel):
            panel.price = self._settings.judge_price

    def on_mount(self) -> None:
        if isinstance(self.run, Run) or not self.run.console:
            self._poll()
        else:
            self.call_after_refresh(self._open_console, self.run.console)
        show_from_thread(self, self._doctor.findings, self._show_findings)

    def _open_console(self, console: Path) -> None:
        """Show the last lines of an external log first; then read its history."""
        self.query_one(LogView).open(console)
        self.call_after_refresh(self._poll)

    def on_unmount(self) -> None:
        self._poller.close()
        self._doctor.close()

    def _show_findings(self, findings: Sequence[Finding]) -> None:
        is_news = self.history.set_findings(findings)
        root = first_alert(self.history)
        self._error_line = None if root is None else find_evidence_line([root])
        self.query_one(RunHeader).show(self.history)
        self._show_banner()
        self.query_one(PanelGrid).show(self.history)
        self.refresh_bindings()
        # The first findings of an ended run or an external log are not news.
        is_active = isinstance(self.run, Run) and not self._has_ended
        if is_news and self._settings.bell and (self._was_diagnosed or is_active):
            self.app.bell()
        self._was_diagnosed = True

    def _show_banner(self) -> None:
        steps = next_steps(
            self.history,
            self._resume_step,
            shows_error=self._error_line is not None,
            is_command=self._is_command,
        )
        keys = first_keys(self.where, self._settings.keys or {})
        is_read_only = self._settings.read_only
        offered = [step for step in steps if not (is_read_only and is_changing(step[0]))]
        own = isinstance(self.run, Run)
        shown = [(keys[action], label) for action, label in offered] if own else []
        self.query_one(Banner).show(self.history, shown)

    def _look_for_checkpoint(self, state: RunState) -> None:
        """Search the resume point once for each attempt that ended early."""
        has_failed = state.has_ended and not state.went_well
        if not has_failed:
            self._ended_attempt, self._resume_step = 0, None
        elif self._ended_attempt != state.attempt and isinstance(self.run, Run):
            self._ended_attempt = state.attempt
            self._find_resume_point(self.run, state.attempt)

    @work(thread=True, exclusive=True, group="resume", exit_on_error=False)
    def _find_resume_point(self, run: Run, attempt: int) -> None:
        from engine.launch.resume import resume_step  # Start-up time.

        try:
            step = resume_step(run)
        except (UsageError, OSError):
            return  # The question says why.
        self.call_later(self._offer_resume, attempt, step)

    def _offer_resume(self, attempt: int, step: int | None) -> None:
        if attempt == self._ended_attempt:
            self._resume_step = step
            self._show_banner()
            self.refresh_bindings()

    @work(thread=True, exclusive=True, group="watch", exit_on_error=False)
    def _poll(self) -> None:
        watch, before = watcher(self.run), None
        self._poller.wake()
        for _ in self._poller.rounds():
            update = watch.poll()
            if _is_news(update, before):
                self.call_later(self.show, update)
            before = (update.state, update.read_share)
            self._poller.next_in(0.0 if update.read_share < 1 else self._settings.refresh_s)

    @property
    def _has_ended(self) -> bool:
        return self.history.state is not None and self.history.state.has_ended

    @property
    def _has_failed(self) -> bool:
        state = self.history.state
        return state is not None and state.has_ended and state.state != "finished"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what applies now: stop an active run, summarize an ended one."""
        needs, ended = needs_of("live", action), self._has_ended
        if needs and not isinstance(self.run, Run):
            return False
        if needs == "ended":
            return ended
        if action == "stop":
            return self.history.state is not None and not ended
        if action == "resume":
            return self._resume_step is not None and not self._is_command
        if action == "launch_fix":
            return not self._is_command and bool(launchable(self.history.findings))
        if action == "reproduce":
            return self._has_failed and not self._is_command
        if action == "open_rollouts":
            return not self.refusal(action)
        if action == "zoom":
            return self.zoomed or room_for(*self.query_one(PanelGrid).outer_size) != (1, 1)
        if action == "panel":
            return all(isinstance(n, int) and n < len(self.panels.names) for n in parameters)
        if action in ("scroll_log", "follow_log"):
            return self.current_chart() is None or not super().check_action("chart_row", ())
        return super().check_action(action, parameters)

    def refusal(self, action: str) -> str:
        return no_rollouts(self._kind) if action == "open_rollouts" else ""

    def current_chart(self) -> ChartBase | None:
        """The first chart of the current panel."""
        panel = self.query_one(PanelGrid).current
        return next(iter(panel.query(ChartBase)), None) if panel is not None else None

    def show(self, update: Update) -> None:
        """Show what the files of the run have new."""
        before = self.history.state
        self.history.add(update)
        if before is None or before.has_ended != update.state.has_ended:
            self.refresh_bindings()
        now = time.monotonic()
        if update.read_share < 1 and now - self._drawn < _READING_S:
            return  # A long history arrives in many parts; not every part is drawn.
        self._drawn = now
        if self._is_command and self._kind is None and self.is_current and kind_of(self.run):
            self.post_message(OpenRun(self.run))  # with the panels for its first metrics
            return
        if isinstance(self.run, Run) or update.read_share >= 1:
            self._doctor.update(update.state, self.history.columns)
        self._look_for_checkpoint(update.state)
        self.query_one(RunHeader).show(self.history)
        self._show_banner()
        if console := console_of(self.run, update.state.attempt):
            self.query_one(LogView).open(console)
        if update.console:
            self.query_one(LogView).poll()
        self.query_one(PanelGrid).show(self.history)

    @on(PanelGrid.Arranged)
    def _show_tabs(self, message: PanelGrid.Arranged) -> None:
        tabs, names = self.query_one(PanelTabs), self.panels.names
        tabs.display = not message.all_visible
        titles = [panel.TITLE for panel in self.query_one(PanelGrid).ordered]
        # Another panel may have been hidden since.
        in_sight = [names.index(name) for name in message.in_sight if name in names]
        tabs.show(titles, self.panels.index, in_sight)
        self._refresh_offers()

    @on(PanelTabs.Chosen)
    def _choose_tab(self, message: PanelTabs.Chosen) -> None:
        self.panels = self.panels.select(message.index)

    @on(Panel.Clicked)
    def _choose_panel(self, message: Panel.Clicked) -> None:
        self.panels = self.panels.select(self.query_one(PanelGrid).ordered.index(message.panel))
        if message.twice and (self.zoomed or self.check_action("zoom", ())):
            self.action_zoom()

    def _refresh_offers(self) -> None:
        """Rebuild the footer only if it changes, and after the panels were drawn: it is slow, and
        keys come in quick succession."""
        offers = (self.current_chart() is None, self.check_action("zoom", ()), self.zoomed)
        if offers != self._offers:
            self._offers = offers
            if self._footer_timer is not None:
                self._footer_timer.stop()
            self._footer_timer = self.set_timer(_FOOTER_S, self.refresh_bindings)

    def watch_panels(self, before: Layout, now: Layout) -> None:
        if self.is_mounted:
            self.query_one(PanelGrid).apply(now, zoomed=self.zoomed)
            self._save_layout(now)

    def watch_zoomed(self, zoomed: bool) -> None:
        if self.is_mounted:
            self.query_one(PanelGrid).apply(self.panels, zoomed=zoomed)

    @work(thread=True, exclusive=True, group="layout", exit_on_error=False)
    def _save_layout(self, layout: Layout) -> None:
        if isinstance(self.run, Run):
            self._layouts.save(self._layout_kind, layout, self._default_panels)

    def action_panel(self, index: int) -> None:
        self.panels = self.panels.select(index)

    def action_next_panel(self) -> None:
        self.panels = self.panels.select_next(1)

    def action_previous_panel(self) -> None:
        self.panels = self.panels.select_next(-1)

    def action_move_panel(self, count: int) -> None:
        self.panels = self.panels.move(count)

    def action_put_panel_away(self) -> None:
        self.panels = self.panels.hide()

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed

    def action_find_metric(self) -> None:
        from grubrics_tui.screens.live.metric_finder import MetricFinder

        def add_panel(slot: Slot | None) -> None:
            if slot is not None:
                self.panels = self.panels.with_slot(slot)

        self.app.push_screen(MetricFinder(self.history, self.panels), add_panel)

    def action_scroll_log(self, lines: int) -> None:
        self.query_one(LogView).move(lines)

    def action_follow_log(self) -> None:
        self.query_one(LogView).follow()

    def action_open_log(self) -> None:
        """Open the log; of a failed run, at the line that shows why."""
        if self._has_failed and self._error_line is not None:
            console, offset = self._error_line
            self.post_message(OpenLog(console, f"log of {self.run.id}", offset))
        elif (path := self.query_one(LogView).path) is not None:
            self.post_message(OpenLog(path, f"log of {self.run.id}"))

    def action_findings(self) -> None:
        self.post_message(OpenFindings(self.run, self.history.findings))

    def action_open_config(self) -> None:
        self.post_message(OpenConfig(self.run))

    def action_open_rollouts(self) -> None:
        """Open the step under the cursor if the x axis shows steps; else the latest step."""
        at_step = self.view.axis == "step" and self.view.cursor is not None
        step = round(self.view.cursor or 0) if at_step else None
        if isinstance(self.run, Run):
            self.post_message(OpenRollouts(self.run, step))

    def action_stop(self) -> None:
        run, state = self.run, self.history.state
        if isinstance(run, Run) and state is not None:
            confirm_stop(self, [(run, state)])

    def action_resume(self) -> None:
        run, state = self.run, self.history.state
        if isinstance(run, Run) and state is not None:
            confirm_resume(self, [(run, state)])

    def action_launch_fix(self) -> None:
        """Ask which of the fixes of all findings to apply."""
        if isinstance(self.run, Run):
            fixes = dict(enumerate(launchable(self.history.findings), start=1))
            confirm_fix(self, self.run, fixes)

    def action_reproduce(self) -> None:
        if isinstance(self.run, Run):
            confirm_reproduction(self, self.run, self.history.findings)

    def action_summary(self) -> None:
        if isinstance(self.run, Run):
            self.post_message(OpenSummary(self.run))

    def action_log_entry(self) -> None:
        if isinstance(self.run, Run):
            self.post_message(OpenLogEntry(self.run))

    def action_relaunch(self) -> None:
        if isinstance(self.run, Run):
            self.post_message(LaunchAgain(self.run.id))

    async def action_back(self) -> None:
        if self.clear_view():
            return
        if self.zoomed:
            self.zoomed = False
        else:
            await self.run_action("app.leave_run")


def _is_news(update: Update, before: tuple[RunState, float] | None) -> bool:
    """Whether a poll brought more than a new heartbeat."""
    if before is None or update.restarted or update.batch:
        return True
    if update.console or update.system or update.events or update.sweep is not None:
        return True
    state, read_share = before
    changed = update.state.evolve(heartbeat=None) != state.evolve(heartbeat=None)
    return changed or update.read_share != read_share
