"""The first screen in a folder without runs and configs: try it, watch a log, use your data."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from engine.base.errors import UsageError
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.dialogs.choices import Choices, WithChoices
from grubrics_tui.screens.dialogs.new_config import NewConfigDialog
from grubrics_tui.screens.navigation import OpenLog, OpenPreflight, OpenRun
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import KeyFooter

_WIDEST = 72
"""Cells of a line of the list in a terminal of 80 columns."""
_PROMPT = "Log file or folder"


@dataclass(frozen=True)
class Choice:
    """One way to begin."""

    id: str
    title: str
    about: str
    changes: bool = False
    """Whether it writes files, which read-only mode refuses."""


CHOICES = (
    Choice("demo", "Try it", "train a tiny model here: no GPU, no network", changes=True),
    Choice("log", "Watch a log", "written by another trainer"),
    Choice(
        "data",
        "Start from your data",
        "write a config for conversations, questions or your own reward",
        changes=True,
    ),
    Choice("config", "Choose a config", "packaged configs for SFT and GRPO"),
)


class StartScreen(WithChoices, CockpitScreen):
    """What takes time is done in a thread; an error is shown below the choices."""

    BINDINGS = bindings("start")
    AUTO_FOCUS = "Choices"

    DEFAULT_CSS = """
    StartScreen {
        & > Vertical { padding: 1 2; height: 1fr; }
        Choices { height: auto; margin: 1 0; }
        Input, Input:focus { border: none; background: $panel; height: 1; padding: 0 1; }
        #status { margin-top: 1; }
    }
    """

    def __init__(self, runs_root: Path) -> None:
        super().__init__()
        self._runs_root = runs_root

    def compose(self) -> ComposeResult:
        title = Content.styled("grubrics-tui", "bold $primary")
        about = Content.styled("  No runs and no configs in this folder yet.", "$foreground")
        with Vertical():
            yield Static(title + about)
            yield Choices("How to begin")
            yield Input()
            yield Static(id="status", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        is_read_only = bool(getattr(getattr(self.app, "settings", None), "read_only", False))
        choices = self.choices
        choices.border_subtitle = "enter choose"
        choices.add_options(
            Option(
                _line(choice, choice.about),
                id=choice.id,
                disabled=choice.changes and is_read_only,
            )
            for choice in CHOICES
        )
        choices.action_first()
        self.query_one(Input).display = False
        self.call_after_refresh(self._list_trainers)

    def _list_trainers(self) -> None:
        """Name the programs whose logs can be watched."""
        # Imported here: the parsers of all formats would delay the first paint.
        from engine.logs.formats.detect import trainers

        choice = next(choice for choice in CHOICES if choice.id == "log")
        prompt = _line(choice, ", ".join(trainers()))
        self.choices.replace_option_prompt(choice.id, prompt)

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        if event.option_id == "log":
            self._ask_path()
        elif event.option_id == "config":
            self.post_message(OpenPreflight(""))
        elif event.option_id == "data":
            self.action_new_config()
        else:
            self.choices.disabled = True
            self._run_demo()

    def action_new_config(self) -> None:
        self.app.push_screen(NewConfigDialog(), self._open_config)

    def _ask_path(self) -> None:
        # Imported here: the parsers of all formats would delay the first paint.
        from engine.logs.formats.detect import find_likely_logs

        printable = (path for path in find_likely_logs(Path()) if str(path).isprintable())
        existing = [path for path in printable if path.exists()]
        files = sorted(existing, key=lambda path: path.stat().st_mtime, reverse=True)
        field = self.query_one(Input)
        field.suggester = SuggestFromList(map(str, files))
        field.placeholder = _PROMPT
        field.value = str(files[0]) if files else ""
        field.display = True
        field.focus()
        self._report("enter open, → complete the name, esc back")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        path = Path(event.value.strip()).expanduser()
        if not event.value.strip():
            self._report(f"{_PROMPT}: type a path", failed=True)
        else:
            self._open_log(path)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _run_demo(self) -> None:
        from engine.launch.demo import launch_demo, make_demo_data, require_trainer

        try:
            require_trainer()
            self.call_later(self._report, "generating data/tiny ...")
            make_demo_data()
            self.call_later(self._report, "launching SFT; GRPO waits for it ...")
            first, *_ = launch_demo(self._runs_root)
        except UsageError as error:
            self.call_later(self._report, str(error), failed=True)
        else:
            self.post_message(OpenRun(first))

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _open_log(self, path: Path) -> None:
        from engine.logs.formats.external_run import open_external

        try:
            log = open_external(path)
        except UsageError as error:
            if path.is_file() and path.stat().st_size:
                self.post_message(OpenLog(path))
            else:
                self.call_later(self._report, str(error), failed=True)
            return
        except OSError as error:
            self.call_later(self._report, f"{path}: {error.strerror}", failed=True)
            return
        as_text = log.format.is_console and not log.metrics
        self.post_message(OpenLog(log.path) if as_text else OpenRun(log))

    def _open_config(self, name: str | None) -> None:
        if name is not None:
            self.post_message(OpenPreflight(name))

    def _report(self, text: str, *, failed: bool = False) -> None:
        choices = self.choices
        if failed and choices.disabled:
            choices.disabled = False
            choices.focus()
        style = "$error" if failed else "$quiet"
        self.query_one("#status", Static).update(inert(Content.styled(text, style)))

    def action_back(self) -> None:
        """Close the field for a path."""
        self.query_one(Input).display = False
        self.query_one("#status", Static).update("")
        self.choices.focus()


def _line(choice: Choice, about: str) -> Content:
    """The title, and beside it what it does; a long text continues on the next line."""
    width = max(len(choice.title) for choice in CHOICES) + 3
    wrapped = f"\n{' ' * width}".join(textwrap.wrap(about, _WIDEST - width))
    return Content.styled(choice.title.ljust(width), "bold") + Content.styled(wrapped, "$quiet")
