"""Every run of this host, newest first."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Footer

from engine.errors import UsageError
from engine.runs.housekeeping import archive, delete, finish_deletions, plan_deletion
from engine.runs.registry import RunInfo, list_runs
from engine.runs.rundir import RunDir
from grubrics_tui.actions import bindings
from grubrics_tui.formats import memory
from grubrics_tui.navigation import OpenLeftovers, OpenLogEntry, OpenRun, OpenVerdict, Tell
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.confirm import Answer, Confirm
from grubrics_tui.screens.confirm_removal import ARCHIVE, DELETE_ALL, ConfirmRemoval
from grubrics_tui.screens.confirm_resume import ConfirmResume
from grubrics_tui.screens.confirm_stop import ConfirmStop
from grubrics_tui.widgets.facts import Facts
from grubrics_tui.widgets.run_facts import run_facts
from grubrics_tui.widgets.run_list import RunList

_POLL_S = 2.0
_FOR_ENDED = ("verdict", "log_entry", "resume", "remove")


class RunsScreen(CockpitScreen):
    """A thread reads the folder and posts it when it differs from what is shown."""

    BINDINGS = bindings("runs")
    AUTO_FOCUS = "RunList"

    DEFAULT_CSS = """
    RunsScreen {
        RunList { margin: 0 1; }
        /* Always as high: a list that changes its size while one moves in it is hard to read. */
        #about { margin: 0 1; height: 9; }
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
        self._left, self._look_now = threading.Event(), threading.Event()

    def compose(self) -> ComposeResult:
        yield RunList()
        yield Facts("selected", id="about")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#about", Facts).show([("", f"reading {self._root} ...")])
        self._poll()

    def on_unmount(self) -> None:
        self._left.set()
        self._look_now.set()

    @work(thread=True, exclusive=True, group="runs", exit_on_error=False)
    def _poll(self) -> None:
        shown: object = None
        while not self._left.is_set():
            self._look_now.clear()
            started = time.monotonic()
            runs = list_runs(self._root)
            seen = [(i.id, i.state.evolve(heartbeat=None)) for i in runs]
            if seen != shown:
                self.post_message(self.Listed(runs))
                shown = seen
            # A folder that takes long to read is read less often.
            self._look_now.wait(max(_POLL_S, 10 * (time.monotonic() - started)))

    @on(Listed)
    def _show(self, message: Listed) -> None:
        self.query_one(RunList).show(message.runs)
        self._show_selected()

    @on(RunList.Highlighted)
    def _show_selected(self) -> None:
        before, info = self._selected, self.query_one(RunList).selected
        self._selected = info
        if before is None or info is None or _offers(before) != _offers(info):
            self.refresh_bindings()
        nothing = [("", f"no runs in {self._root} yet; c opens the checklist")]
        self.query_one("#about", Facts).show(nothing if info is None else run_facts(info))

    def _run(self, info: RunInfo) -> RunDir:
        return RunDir(self._root / info.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop what runs, and to judge, resume or put away what has ended."""
        if action != "stop" and action not in _FOR_ENDED:
            return True
        info = self._selected
        if action == "resume" and info is not None and info.state.went_well:
            return False
        return info is not None and info.state.has_ended == (action in _FOR_ENDED)

    @on(RunList.Opened)
    def action_open_run(self) -> None:
        self._open(OpenRun)

    def action_verdict(self) -> None:
        self._open(OpenVerdict)

    def action_log_entry(self) -> None:
        self._open(OpenLogEntry)

    def _open(self, what: type[OpenRun | OpenVerdict | OpenLogEntry]) -> None:
        if (info := self._selected) is not None:
            self.post_message(what(self._run(info)))

    def action_leftovers(self) -> None:
        self.post_message(OpenLeftovers())

    def action_stop(self) -> None:
        if (info := self._selected) is not None:
            self.app.push_screen(ConfirmStop(self._run(info), info.state), self._say_stopping)

    def _say_stopping(self, answer: str | None) -> None:
        if answer:
            self.notify(answer, markup=False)

    def action_resume(self) -> None:
        if (info := self._selected) is None:
            return
        run = self._run(info)

        def answered(step: str | None) -> None:
            if step is not None:
                self.notify(f"Resuming {run.id} from step {step} ...", markup=False)
                self._resume(run, int(step))

        self.app.push_screen(ConfirmResume(run, info.state), answered)

    @work(thread=True, group="deeds", exit_on_error=False)
    def _resume(self, run: RunDir, step: int) -> None:
        from engine.launch.resume import resume

        try:
            warnings = resume(run, step or None).warnings
        except (UsageError, OSError) as error:
            self.app.post_message(Tell(str(error), failed=True))
        else:
            if warnings:
                self.app.post_message(Tell("\n".join(warnings)))
            self.post_message(OpenRun(run))

    def action_remove(self) -> None:
        if (info := self._selected) is None:
            return
        run = self._run(info)

        def answered(choice: str | None) -> None:
            if choice is not None:
                self._remove(run, choice)

        self.app.push_screen(ConfirmRemoval(run, self._root), answered)

    @work(thread=True, group="deeds", exit_on_error=False)
    def _remove(self, run: RunDir, choice: str) -> None:
        try:
            told = _put_away(run, self._root, choice)
        except (UsageError, OSError) as error:
            self.app.post_message(Tell(str(error), failed=True))
        else:
            self.app.post_message(Tell(told))
        self._look_now.set()

    def action_back(self) -> None:
        """To where the person came from; from the first screen there is only the way out."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()
            return
        text = "Runs go on without the screen."
        ask = Confirm("quit?", text, [Answer("y", "quit")], "stay")
        self.app.push_screen(ask, self._quit)

    async def _quit(self, answer: str | None) -> None:
        if answer:
            await self.run_action("app.leave")

    def action_cursor_down(self) -> None:
        self.query_one(RunList).action_move(1)

    def action_cursor_up(self) -> None:
        self.query_one(RunList).action_move(-1)


def _offers(info: RunInfo) -> tuple[bool, bool]:
    """What decides about the keys that make sense for a run."""
    return info.state.has_ended, info.state.went_well


def _put_away(run: RunDir, root: Path, choice: str) -> str:
    """Do what was answered; says in words what became of the run."""
    if choice == ARCHIVE:
        archive(run)
        return f"Archived {run.id}.\nTo bring it back: grubrics-tui archive --undo {run.id}"
    finish_deletions(root)
    freed = delete(plan_deletion(run, root), checkpoints=choice == DELETE_ALL)
    return f"Deleted {run.id}: {memory(freed)} freed."
