"""The app: which screen is open, which one follows, and the picture before the first one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.notifications import SeverityLevel
from textual.screen import Screen

from engine.config.config_files import CONFIG_DIR
from engine.report.decisions import DECISIONS
from engine.run.columns import format_step
from engine.run.run import Run
from engine.run.state import observed_state
from grubrics_tui.app.base_app import Frame, screen_name
from grubrics_tui.drawing.run_head import RunValues, draw_run_head
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenAblation,
    OpenCompare,
    OpenConfig,
    OpenDecision,
    OpenFindings,
    OpenGuide,
    OpenLog,
    OpenLogEntry,
    OpenOrphans,
    OpenPreflight,
    OpenRollouts,
    OpenRun,
    OpenSummary,
    ShowNotice,
)
from grubrics_tui.settings.layout import LayoutFile, panel_title, room_for
from grubrics_tui.settings.settings import Loaded, Settings, panels_for
from grubrics_tui.settings.state_files import VisitFile
from grubrics_tui.widgets.span_widget import SpanWidget

if TYPE_CHECKING:
    from grubrics_tui.model.news import News
    from grubrics_tui.model.run_source import Watched
    from grubrics_tui.screens.preflight.screen import PreflightScreen


_HEADER, _TABS, _FOOTER, _MARGIN = 3, 1, 1, 1
_INDENT = 2


class Splash(SpanWidget):
    """The first view of a run, before anything that draws values is imported."""

    def __init__(self) -> None:
        super().__init__()
        self._run_id, self._kind, self._names = "", "", list[str]()
        self._values: RunValues | None = None

    def show(self, run_id: str, kind: str, values: RunValues, names: Sequence[str]) -> None:
        """Show the values and the panels of this run, whose layout is that of ``kind``."""
        self._run_id, self._kind, self._names = run_id, kind, list(names)
        self._values = values
        self.redraw()

    def clear(self) -> None:
        self._values = None
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        if self._values is None:
            return []
        lines = draw_run_head(
            self._run_id,
            self._kind,
            self._values,
            width - 2 * _INDENT,
            ascii_only=self.ascii_only,
        )
        head: list[Row] = [[Span(" " * _INDENT), *line] for line in lines]
        wide, room = width - 2 * _MARGIN, height - _HEADER - _FOOTER
        columns, rows = room_for(wide, room)
        if columns * rows < len(self._names):
            columns, rows = room_for(wide, room - _TABS)
            head, room = [*head, []], room - _TABS
        return head + frames(self._names[: columns * rows], columns, wide, room)


def frames(names: Sequence[str], columns: int, width: int, height: int) -> list[Row]:
    """Boxes with these titles, side by side."""
    count = -(-len(names) // columns)
    lines: list[Row] = []
    for row in range(count):
        titles = names[row * columns : (row + 1) * columns]
        tall = (row + 1) * height // count - row * height // count
        edges = [column * width // columns for column in range(len(titles))]
        sizes = [end - start for start, end in zip(edges, [*edges[1:], width], strict=True)]
        boxes = [
            _box(row * columns + column + 1, title, size, tall)
            for column, (title, size) in enumerate(zip(titles, sizes, strict=True))
        ]
        lines += [
            [Span(" "), *(span for part in parts for span in part)]
            for parts in zip(*boxes, strict=True)
        ]
    return lines


def _box(number: int, name: str, width: int, height: int) -> list[Row]:
    title = f" {number} {panel_title(name)} "[: max(0, width - 4)]
    edge = "─" * (width - 3 - len(title))
    top = [Span("╭─", "line"), Span(title, "quiet"), Span(f"{edge}╮", "line")]
    side = [Span(f"│{' ' * (width - 2)}│", "line")]
    bottom = [Span(f"╰{'─' * (width - 2)}╯", "line")]
    return [top, *([side] * max(0, height - 2)), bottom]


class GrubricsApp(Frame):
    """Opens what happened since the last visit; in a folder without runs, the preflight checks of
    ``config``; without configs, too, the ways to begin. With ``checks`` it opens the preflight
    checks.

    The app only reads files and sends requests: quitting it, or losing the terminal, does not
    affect a run. With ``log`` it opens that file. Screens are imported when they open, so that a
    log of gigabytes opens at once.
    """

    def __init__(
        self,
        runs_root: Path,
        config: str,
        overrides: tuple[str, ...] = (),
        *,
        checks: bool = False,
        log_path: Path = Path("docs/experiment-log.md"),
        log: Path | None = None,
        watched: Watched | None = None,
        compared: OpenCompare | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        super().__init__(loaded or Loaded(Settings(), {}))
        self.runs_root, self.config, self.overrides = runs_root, config, overrides
        self.log_path, self._first_log = log_path, log
        self._watched, self._compared, self._checks = watched, compared, checks
        self._opening = Splash()

    def compose(self) -> ComposeResult:
        yield self._opening

    def on_mount(self) -> None:
        if self._first_log is not None:
            self._open_log(OpenLog(self._first_log))
        elif self._watched is not None:
            self._open_first(self._watched)
        elif self._compared is not None:
            self.action_show_runs()
            self._open_compare(self._compared)
        elif self._checks:
            self.action_show_preflight()
        else:
            self._read_runs()

    @work(thread=True, group="open", exit_on_error=False)
    def _read_runs(self) -> None:
        from grubrics_tui.model.news import read_news

        try:
            news = read_news(self.runs_root, VisitFile().read(self.runs_root))
        except OSError:
            news = None  # The list of runs shows why.
        is_new = not self.config and not any(
            folder.is_dir() and any(folder.iterdir()) for folder in (self.runs_root, CONFIG_DIR)
        )
        self.call_later(self._open, news, is_new=is_new)

    def _open(self, news: News | None, is_new: bool) -> None:
        if len(self.screen_stack) > 1:
            return  # The user has opened another screen already.
        if is_new:
            from grubrics_tui.screens.start import StartScreen

            self._show(StartScreen(self.runs_root))
        elif news is None or not news.total:
            self.action_show_preflight()
        else:
            self._show(_home(self.runs_root, news.since, news))

    def _open_first(self, run: Watched) -> None:
        """Show the newest values and empty panel frames first, then import what draws in them."""
        if isinstance(run, Run):
            from grubrics_tui.model.run_source import (
                OpeningValues,  # Start-up time.
                kind_of,
                layout_of,
            )

            kind, name = kind_of(run), layout_of(run)
            layout = LayoutFile().load(name, panels_for(self.settings, kind.name if kind else ""))
            self._opening.show(run.id, name, OpeningValues.read(run), layout.names)
        self.call_after_refresh(self._open_live, run)

    def _open_live(self, run: Watched) -> None:
        if len(self.screen_stack) == 1:
            self._show(_live(run, self.settings))
            self._opening.clear()

    def action_show_home(self) -> None:
        """Return to the home screen; open it if the app was started with another one."""
        if not self._return_to("home"):
            self._show(_home(self.runs_root, VisitFile().read(self.runs_root)))

    def action_show_runs(self) -> None:
        """Show the list above the current screen, so that ``back`` returns there."""
        if not self._return_to("runs"):
            while len(self.screen_stack) > 2:
                self.pop_screen()
            self.push_screen(_runs(self.runs_root))

    def action_leave_run(self) -> None:
        """Return from a run to the list of runs or to the home screen; else open the list."""
        if not (self._return_to("runs") or self._return_to("home")):
            self._show(_runs(self.runs_root))

    def action_show_preflight(self) -> None:
        self._show_preflight()

    def _show_preflight(self, *, edits: bool = False) -> None:
        from grubrics_tui.screens.preflight.screen import PreflightScreen

        self._show(PreflightScreen(self.runs_root, self.config, self.overrides, edits=edits))

    def on_preflight_screen_chosen(self, message: PreflightScreen.Chosen) -> None:
        self.config, self.overrides = message.config, message.overrides

    @on(OpenPreflight)
    def _open_preflight(self, message: OpenPreflight) -> None:
        self.config = message.config
        self.action_show_preflight()

    @on(LaunchAgain)
    def _launch_again(self, message: LaunchAgain) -> None:
        run = Run(self.runs_root / message.run)
        if run.is_command:
            from grubrics_tui.screens.dialogs.change_runs import confirm_command_again

            confirm_command_again(self.screen, run)
            return
        from grubrics_tui.screens.dialogs.confirm import when_trusted  # Start-up time.

        def check() -> None:
            self.config, self.overrides = message.run, ()
            self._show_preflight(edits=True)

        when_trusted(self.screen, [run], check, executes=True)

    @on(OpenRun)
    def _open_run(self, message: OpenRun) -> None:
        if self._return_to("runs"):
            self.push_screen(_live(message.run, self.settings))
        else:
            self._show(_live(message.run, self.settings))

    @on(OpenRollouts)
    def _open_rollouts(self, message: OpenRollouts) -> None:
        from grubrics_tui.screens.rollouts.screen import RolloutsScreen

        self.push_screen(RolloutsScreen(message.run, message.step, message.group, message.rollout))

    @on(OpenCompare)
    def _open_compare(self, message: OpenCompare) -> None:
        from grubrics_tui.screens.compare.screen import CompareScreen

        self.push_screen(CompareScreen(message.runs, message.marks, message.grouping))

    def action_show_ablations(self) -> None:
        """Choose an ablation of this folder, or plan a new one."""
        from engine.measure.ablations.plan import FOLDER, read_plan
        from grubrics_tui.screens.ablation.guide import NEW, find_ablations
        from grubrics_tui.screens.dialogs.choices import PickName

        def choose(name: str | None) -> None:
            if name == NEW:
                self.post_message(OpenGuide(""))
            elif name is not None:
                self.post_message(OpenAblation(read_plan(FOLDER / name)))

        self.push_screen(PickName("Ablations", find_ablations), choose)

    @on(OpenGuide)
    def _open_guide(self, message: OpenGuide) -> None:
        from grubrics_tui.screens.ablation.guide import GuideScreen

        self.push_screen(GuideScreen(self.runs_root, message.base, message.overrides))

    @on(OpenAblation)
    def _open_ablation(self, message: OpenAblation) -> None:
        from grubrics_tui.screens.ablation.screen import AblationScreen

        if screen_name(self.screen) == "guide":
            self.pop_screen()
        self.push_screen(AblationScreen(message.plan, self.runs_root, self.log_path))

    @on(OpenLog)
    def _open_log(self, message: OpenLog) -> None:
        from grubrics_tui.screens.log.screen import LogScreen

        screen = LogScreen(message.path, message.title)
        self.push_screen(screen)
        if message.offset is not None:
            screen.call_after_refresh(screen.go_to_offset, message.offset)

    @on(OpenFindings)
    def _open_findings(self, message: OpenFindings) -> None:
        from grubrics_tui.screens.findings.screen import FindingsScreen

        self.push_screen(FindingsScreen(message.run, message.findings))

    @on(OpenConfig)
    def _open_config(self, message: OpenConfig) -> None:
        from grubrics_tui.screens.config.screen import ConfigScreen

        self.push_screen(ConfigScreen(message.run))

    @on(OpenOrphans)
    def _open_orphans(self) -> None:
        from grubrics_tui.screens.orphans import OrphansScreen

        self.push_screen(OrphansScreen(self.runs_root))

    @on(ShowNotice)
    def _show_notice(self, message: ShowNotice) -> None:
        severity: SeverityLevel = "error" if message.failed else "information"
        self.notify(message.text, severity=severity, markup=False)

    @on(OpenSummary)
    def _open_summary(self, message: OpenSummary) -> None:
        from grubrics_tui.screens.run_summary import RunSummaryScreen

        self.push_screen(RunSummaryScreen(message.run))

    @on(OpenLogEntry)
    def _open_log_entry(self, message: OpenLogEntry) -> None:
        from grubrics_tui.screens.forms import LogEntryScreen

        self.push_screen(LogEntryScreen(message.run, self.log_path))

    @on(OpenDecision)
    def _open_decision(self, message: OpenDecision) -> None:
        from grubrics_tui.screens.forms import DecisionScreen

        path = self.log_path.with_name(DECISIONS)
        self.push_screen(DecisionScreen(path, message.context))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key that opens the current screen, and keys that would leave a form."""
        screen = next((s for s in reversed(self.screen_stack) if not s.is_modal), None)
        name = screen_name(screen) if screen else ""
        opened = {"show_home": "home", "show_preflight": "preflight", "show_runs": "runs"}
        if action in opened and name in ("log_entry", "decision"):
            return False
        return opened.get(action) != name

    def action_leave(self) -> None:
        self.exit(message=self._farewell())

    def _show(self, screen: Screen[None]) -> None:
        """Make ``screen`` the only one above the home screen, or above the empty base."""
        if self._return_to("home"):
            self.push_screen(screen)
            return
        while len(self.screen_stack) > 2:
            self.pop_screen()
        if len(self.screen_stack) == 1:
            self.push_screen(screen)
        else:
            self.switch_screen(screen)

    def _return_to(self, name: str) -> bool:
        """Close what is above the screen of this name; False when it is not open."""
        if not any(screen_name(screen) == name for screen in self.screen_stack):
            return False
        while screen_name(self.screen) != name:
            self.pop_screen()
        return True

    def _farewell(self) -> str | None:
        """Say that the run on the screen keeps running."""
        shown = [screen for screen in self.screen_stack if screen_name(screen) == "live"]
        run: Watched | None = getattr(shown[-1], "run", None) if shown else None
        if not isinstance(run, Run) or (state := observed_state(run)).has_ended:
            return None
        run_id, step = run.id, format_step(state.step, state.total_steps)
        is_queued = state.state == "queued"
        stays = "stays queued" if is_queued else f"keeps running ({state.state}, step {step})"
        return f"{run_id} {stays}.\nReattach: grubrics-tui. Stop it: grubrics-tui stop {run_id}"


def _home(root: Path, since: float | None, news: News | None = None) -> Screen[None]:
    from grubrics_tui.screens.home.screen import HomeScreen

    return HomeScreen(root, since, news)


def _live(run: Watched, settings: Settings) -> Screen[None]:
    from grubrics_tui.screens.live.screen import LiveScreen

    return LiveScreen(run, settings)


def _runs(root: Path) -> Screen[None]:
    from grubrics_tui.screens.runs.screen import RunsScreen

    return RunsScreen(root)
