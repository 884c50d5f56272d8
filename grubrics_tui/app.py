"""The app: which screen is open, in which colours, and what every screen can do."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.actions import ActionParseResult
from textual.app import App, ComposeResult, SystemCommand
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen

from engine.runs.registry import RunInfo, active_run
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from grubrics_tui.actions import actions_of, bindings, is_changing, keymap
from grubrics_tui.ascii_text import AsciiFilter
from grubrics_tui.formats import step_of
from grubrics_tui.layout import LayoutFile
from grubrics_tui.navigation import (
    OpenCompare,
    OpenFindings,
    OpenLeftovers,
    OpenLog,
    OpenLogEntry,
    OpenRollouts,
    OpenRun,
    OpenVerdict,
    Tell,
)
from grubrics_tui.settings import Loaded, Settings, panels_for
from grubrics_tui.terminal_text import clean_text
from grubrics_tui.themes import DARK, THEMES
from grubrics_tui.widgets.opening import Opening

_FAULT_S = 20.0
_SETTLED_S = 3.0
"""By then the first screen is up, with what was imported for it."""

if TYPE_CHECKING:
    from grubrics_tui.screens.checklist import ChecklistScreen
    from grubrics_tui.watched import Watched


class GrubricsApp(App[None]):
    """Opens the run that is active, or else the checklist of ``config``.

    It only reads files and asks: quitting it, or losing the terminal, changes nothing for a run.
    With ``log`` it opens on that file. Screens are imported when they open: a log of gigabytes
    shall be there at once.
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
    OptionList, TextArea, VerticalScroll { scrollbar-size: 1 1; }
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
        log: Path | None = None,
        watched: Watched | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        super().__init__()
        self.loaded = loaded or Loaded(Settings(), {})
        settings = self.settings = self.loaded.settings
        self.runs_root, self.config, self.overrides = runs_root, config, overrides
        self.log_path, self._first_log = log_path, log
        self.ascii_only = not _speaks_unicode() if settings.ascii is None else settings.ascii
        self._watched = watched
        self.animation_level = "none"
        self._opening = Opening()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = settings.theme
        self._ascii_filters = [AsciiFilter()] if self.ascii_only else []
        self.set_keymap(keymap(settings.keys))

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for Textual themes that do not know them."""
        return DARK.variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii_filters]

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice; a terminal is written to sparingly."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from grubrics_tui.driver import SparingDriver

        return SparingDriver

    def compose(self) -> ComposeResult:
        yield self._opening

    def on_mount(self) -> None:
        # The garbage collector need not walk again and again through what stays for good.
        self.set_timer(_SETTLED_S, gc.freeze)
        for fault in self.loaded.faults:
            self.notify(fault, title="settings", severity="warning", timeout=_FAULT_S, markup=False)
        if self._first_log is not None:
            self._open_log(OpenLog(self._first_log))
        elif self._watched is not None:
            self._open_first(self._watched)
        else:
            self._find_active()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """What is told may quote a file: it is inert, and never read as markup."""
        super().notify(
            clean_text(message),
            title=clean_text(title),
            severity=severity,
            timeout=timeout,
            markup=False,
        )

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Every key, click and palette entry comes by here: a read-only screen changes nothing."""
        name = action if isinstance(action, str) else action[1]
        if self.settings.read_only and is_changing(name):
            self.notify("the screen is read-only: nothing was done", markup=False)
            return True
        return await super().run_action(action, default_namespace, namespaces)

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
            self._open_first(RunDir(self.runs_root / message.active.id))

    def _open_first(self, run: Watched) -> None:
        """The frames of the run's panels come before what draws in them is loaded."""
        if isinstance(run, RunDir):
            kind = str(run.read_manifest().get("kind", "grpo"))
            layout = LayoutFile().load(kind, panels_for(self.settings, kind))
            self._opening.show(run.id, layout.names)
        self.call_after_refresh(self._open_live, run)

    def _open_live(self, run: Watched) -> None:
        if len(self.screen_stack) == 1:
            self._show(_live(run, self.settings))
            self._opening.show("", ())

    def action_show_runs(self) -> None:
        """The list, above the screen that asked for it: ``back`` leads there again."""
        if not self._return_to_runs():
            while len(self.screen_stack) > 2:
                self.pop_screen()
            self.push_screen(_runs(self.runs_root))

    def action_leave_run(self) -> None:
        """From a run to the list, which is home when the person did not come from it."""
        if not self._return_to_runs():
            self._show(_runs(self.runs_root))

    def action_show_checklist(self) -> None:
        from grubrics_tui.screens.checklist import ChecklistScreen

        self._show(ChecklistScreen(self.runs_root, self.config, self.overrides))

    def on_checklist_screen_chosen(self, message: ChecklistScreen.Chosen) -> None:
        self.config, self.overrides = message.config, message.overrides

    @on(OpenRun)
    def _open_run(self, message: OpenRun) -> None:
        if self._return_to_runs():
            self.push_screen(_live(message.run, self.settings))
        else:
            self._show(_live(message.run, self.settings))

    @on(OpenRollouts)
    def _open_rollouts(self, message: OpenRollouts) -> None:
        from grubrics_tui.screens.rollouts import RolloutsScreen

        self.push_screen(RolloutsScreen(message.run, message.step))

    @on(OpenCompare)
    def _open_compare(self, message: OpenCompare) -> None:
        from grubrics_tui.screens.compare import CompareScreen

        self.push_screen(CompareScreen(message.runs, message.marks))

    @on(OpenLog)
    def _open_log(self, message: OpenLog) -> None:
        from grubrics_tui.screens.log import LogScreen

        screen = LogScreen(message.path, message.title)
        self.push_screen(screen)
        if message.offset is not None:
            screen.call_after_refresh(screen.go_to_offset, message.offset)

    @on(OpenFindings)
    def _open_findings(self, message: OpenFindings) -> None:
        from grubrics_tui.screens.findings import FindingsScreen

        self.push_screen(FindingsScreen(message.run, message.known))

    @on(OpenLeftovers)
    def _open_leftovers(self) -> None:
        from grubrics_tui.screens.leftovers import LeftoversScreen

        self.push_screen(LeftoversScreen(self.runs_root))

    @on(Tell)
    def _tell(self, message: Tell) -> None:
        severity: SeverityLevel = "error" if message.failed else "information"
        self.notify(message.text, severity=severity, markup=False)

    @on(OpenVerdict)
    def _open_verdict(self, message: OpenVerdict) -> None:
        from grubrics_tui.screens.end import EndScreen

        self.push_screen(EndScreen(message.run))

    @on(OpenLogEntry)
    def _open_log_entry(self, message: OpenLogEntry) -> None:
        from grubrics_tui.screens.log_entry import LogEntryScreen

        self.push_screen(LogEntryScreen(message.run, self.log_path))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No screen offers the way to itself, and none leads away from a half-written entry."""
        here = next((s for s in reversed(self.screen_stack) if not s.is_modal), None)
        name = screen_name(here) if here else ""
        if action in ("show_runs", "show_checklist") and name == "log_entry":
            return False
        shown = {"show_checklist": "checklist", "show_runs": "runs"}.get(action)
        return shown is None or shown != name

    def action_show_help(self) -> None:
        if screen_name(self.screen) != "help":
            from grubrics_tui.screens.help import HelpScreen

            self.push_screen(HelpScreen(screen_name(self.screen), self.settings.keys))

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        here = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(here + 1) % len(names)]

    def action_leave(self) -> None:
        self.exit(message=self._farewell())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for action in actions_of(screen_name(screen)):
            refused = self.settings.read_only and action.changes
            if action.needs_argument or refused:
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
        if not any(screen_name(screen) == "runs" for screen in self.screen_stack):
            return False
        while screen_name(self.screen) != "runs":
            self.pop_screen()
        return True

    def _farewell(self) -> str | None:
        """What becomes of the run that was on the screen."""
        shown = [screen for screen in self.screen_stack if screen_name(screen) == "live"]
        run: Watched | None = getattr(shown[-1], "run", None) if shown else None
        if not isinstance(run, RunDir) or (state := observed_state(run)).has_ended:
            return None
        run_id, step = run.id, step_of(state.step, state.total_steps)
        return (
            f"{run_id} goes on without the screen ({state.state}, step {step}).\n"
            f"grubrics-tui opens it again; grubrics-tui stop {run_id} stops it."
        )


def _live(run: Watched, settings: Settings) -> Screen[None]:
    from grubrics_tui.screens.live import LiveScreen

    return LiveScreen(run, settings)


def _runs(root: Path) -> Screen[None]:
    from grubrics_tui.screens.runs import RunsScreen

    return RunsScreen(root)


def screen_name(screen: Screen[object]) -> str:
    """The name under which the action registry knows a screen."""
    return getattr(screen, "WHERE", type(screen).__name__.removesuffix("Screen").lower())


def _speaks_unicode() -> bool:
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return "utf" in encoding.lower()
