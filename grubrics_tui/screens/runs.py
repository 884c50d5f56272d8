"""Every run of this host, newest first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Footer

from engine.runs.registry import RunInfo, list_runs
from engine.runs.rundir import RunDir
from engine.runs.state import describe
from grubrics_tui.actions import bindings
from grubrics_tui.navigation import OpenLogEntry, OpenRun, OpenVerdict
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.confirm_stop import ConfirmStop
from grubrics_tui.widgets.facts import Facts
from grubrics_tui.widgets.run_list import RunList

_POLL_S = 2.0


class RunsScreen(CockpitScreen):
    """A thread reads the folder and posts it when it differs from what is shown."""

    BINDINGS = bindings("runs")
    AUTO_FOCUS = "RunList"

    DEFAULT_CSS = """
    RunsScreen {
        RunList { margin: 0 1; }
        #about { margin: 0 1; min-height: 4; max-height: 8; }
    }
    """

    class Listed(Message):
        def __init__(self, runs: Sequence[RunInfo]) -> None:
            super().__init__()
            self.runs = runs

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._selected: RunInfo | None = None
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        yield RunList()
        yield Facts("selected", id="about")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._poll()

    def on_unmount(self) -> None:
        self._left.set()

    @work(thread=True, exclusive=True, group="runs", exit_on_error=False)
    def _poll(self) -> None:
        shown: object = None
        while not self._left.is_set():
            runs = list_runs(self._root)
            seen = [(i.id, i.state.state, i.state.reason, i.state.step) for i in runs]
            if seen != shown:
                self.post_message(self.Listed(runs))
                shown = seen
            self._left.wait(_POLL_S)

    @on(Listed)
    def _show(self, message: Listed) -> None:
        self.query_one(RunList).show(message.runs)
        self._show_selected()

    @on(RunList.OptionHighlighted)
    def _show_selected(self) -> None:
        about, info = self.query_one("#about", Facts), self.query_one(RunList).selected
        self._selected = info
        self.refresh_bindings()
        if info is None:
            about.show([("", f"no runs in {self._root} yet; c opens the checklist")])
            return
        about.show([("run", info.id), ("recipe", info.recipe), ("state", describe(info.state))])

    @on(RunList.OptionSelected)
    def action_open_run(self) -> None:
        self._open(OpenRun)

    def action_verdict(self) -> None:
        self._open(OpenVerdict)

    def action_log_entry(self) -> None:
        self._open(OpenLogEntry)

    def _open(self, what: type[OpenRun | OpenVerdict | OpenLogEntry]) -> None:
        if (info := self._selected) is not None:
            self.post_message(what(RunDir(self._root / info.id)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop what runs, and to judge what has ended."""
        info = self._selected
        if action == "stop":
            return info is not None and not info.state.has_ended
        if action in ("verdict", "log_entry"):
            return info is not None and info.state.has_ended
        return True

    def action_stop(self) -> None:
        if (info := self._selected) is not None:
            ask = ConfirmStop(RunDir(self._root / info.id), info.state)
            self.app.push_screen(ask, self._say_stopping)

    def _say_stopping(self, answer: str | None) -> None:
        if answer:
            self.notify(answer, markup=False)

    async def action_back(self) -> None:
        await self.run_action("app.show_checklist")

    def action_cursor_down(self) -> None:
        self.query_one(RunList).action_cursor_down()

    def action_cursor_up(self) -> None:
        self.query_one(RunList).action_cursor_up()
