"""The app: which screen is open, in which colours, and what every screen can do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from textual import on, work
from textual.app import App, SystemCommand
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen

from engine.runs.registry import RunInfo, active_run
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from grubrics_tui.actions import actions_of, bindings
from grubrics_tui.formats import step_of
from grubrics_tui.navigation import OpenLeftovers, OpenLogEntry, OpenRun, OpenVerdict, Tell
from grubrics_tui.screens.checklist import ChecklistScreen
from grubrics_tui.screens.end import EndScreen
from grubrics_tui.screens.help import HelpScreen
from grubrics_tui.screens.leftovers import LeftoversScreen
from grubrics_tui.screens.live import LiveScreen
from grubrics_tui.screens.log_entry import LogEntryScreen
from grubrics_tui.screens.runs import RunsScreen
from grubrics_tui.themes import DARK, THEMES


class GrubricsApp(App[None]):
    """Opens the run that is active, or else the checklist of ``config``.

    It only reads files and asks: quitting it, or losing the terminal, changes nothing for a run.
    """

    TITLE = "grubrics-tui"
    BINDINGS = bindings()
    ENABLE_COMMAND_PALETTE = True

    CSS = """
    Screen { background: $background; overflow: hidden; }
    ModalScreen { background: $background 55%; }
    Footer { background: $background; height: 1; padding: 0 1; }
    FooterKey {
        background: $background;
        color: $quiet;
        .footer-key--key { color: $primary; background: $background; }
    }
    Toast { background: $panel; }
    OptionList, TextArea, VerticalScroll, LogTail { scrollbar-size: 1 1; }
    * {
        scrollbar-color: $line;
        scrollbar-color-hover: $line-focus;
        scrollbar-color-active: $line-focus;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-corner-color: $background;
    }
    """

    class Opened(Message):
        """The runs folder was read: ``active`` is the newest run that has not ended."""

        def __init__(self, active: RunInfo | None) -> None:
            super().__init__()
            self.active = active

    def __init__(
        self,
        runs_root: Path,
        config: str,
        overrides: tuple[str, ...] = (),
        log_path: Path = Path("docs/experiment-log.md"),
    ) -> None:
        super().__init__()
        self.runs_root, self.config, self.overrides = runs_root, config, overrides
        self.log_path = log_path
        self.ascii_only = not _speaks_unicode()
        self.animation_level = "none"
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for Textual themes that do not know them."""
        return DARK.variables

    def on_mount(self) -> None:
        self._find_active()

    @work(thread=True, group="open", exit_on_error=False)
    def _find_active(self) -> None:
        try:
            active = active_run(self.runs_root)
        except OSError:
            active = None  # The list of runs says what is wrong with the folder.
        self.post_message(self.Opened(active))

    @on(Opened)
    def _open(self, message: Opened) -> None:
        if len(self.screen_stack) > 1:
            return  # The person was faster and has gone somewhere already.
        if message.active is None:
            self.action_show_checklist()
        else:
            self._show(LiveScreen(RunDir(self.runs_root / message.active.id)))

    def action_show_runs(self) -> None:
        """The list, above the screen that asked for it: ``back`` leads there again."""
        if not self._return_to_runs():
            while len(self.screen_stack) > 2:
                self.pop_screen()
            self.push_screen(RunsScreen(self.runs_root))

    def action_leave_run(self) -> None:
        """From a run to the list, which is home when the person did not come from it."""
        if not self._return_to_runs():
            self._show(RunsScreen(self.runs_root))

    def action_show_checklist(self) -> None:
        self._show(ChecklistScreen(self.runs_root, self.config, self.overrides))

    @on(ChecklistScreen.Chosen)
    def _remember(self, message: ChecklistScreen.Chosen) -> None:
        self.config, self.overrides = message.config, message.overrides

    @on(OpenRun)
    def _open_run(self, message: OpenRun) -> None:
        if self._return_to_runs():
            self.push_screen(LiveScreen(message.run))
        else:
            self._show(LiveScreen(message.run))

    @on(OpenLeftovers)
    def _open_leftovers(self) -> None:
        self.push_screen(LeftoversScreen(self.runs_root))

    @on(Tell)
    def _tell(self, message: Tell) -> None:
        severity: SeverityLevel = "error" if message.failed else "information"
        self.notify(message.text, severity=severity, markup=False)

    @on(OpenVerdict)
    def _open_verdict(self, message: OpenVerdict) -> None:
        self.push_screen(EndScreen(message.run))

    @on(OpenLogEntry)
    def _open_log_entry(self, message: OpenLogEntry) -> None:
        self.push_screen(LogEntryScreen(message.run, self.log_path))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No screen offers the way to itself, and none leads away from a half-written entry."""
        if action in ("show_runs", "show_checklist") and isinstance(self.screen, LogEntryScreen):
            return False
        shown = {"show_checklist": ChecklistScreen, "show_runs": RunsScreen}.get(action)
        return shown is None or not isinstance(self.screen, shown)

    def action_show_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(screen_name(self.screen)))

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        here = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(here + 1) % len(names)]

    def action_leave(self) -> None:
        self.exit(message=self._farewell())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for action in actions_of(screen_name(screen)):
            if action.needs_argument:
                continue
            title = (action.label or action.description).capitalize()
            twin = f"  $ {action.twin}" if action.twin else ""
            yield SystemCommand(
                title, f"{action.description}{twin}", partial(screen.run_action, action.name)
            )
        yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)

    def _show(self, screen: Screen[None]) -> None:
        """Make ``screen`` the only one above the empty base."""
        while len(self.screen_stack) > 2:
            self.pop_screen()
        if len(self.screen_stack) == 1:
            self.push_screen(screen)
        else:
            self.switch_screen(screen)

    def _return_to_runs(self) -> bool:
        """Close what is above the list of runs; False when the list is not open."""
        if not any(isinstance(screen, RunsScreen) for screen in self.screen_stack):
            return False
        while not isinstance(self.screen, RunsScreen):
            self.pop_screen()
        return True

    def _farewell(self) -> str | None:
        """What becomes of the run that was on the screen."""
        shown = [screen.run for screen in self.screen_stack if isinstance(screen, LiveScreen)]
        state = observed_state(shown[-1]) if shown else None
        if state is None or state.has_ended:
            return None
        run_id, step = shown[-1].id, step_of(state.step, state.total_steps)
        return (
            f"{run_id} goes on without the screen ({state.state}, step {step}).\n"
            f"grubrics-tui opens it again; grubrics-tui stop {run_id} stops it."
        )


def screen_name(screen: Screen[object]) -> str:
    """The name under which the action registry knows a screen."""
    return getattr(screen, "WHERE", type(screen).__name__.removesuffix("Screen").lower())


def _speaks_unicode() -> bool:
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return "utf" in encoding.lower()
