"""The first screen in a folder without runs and configs: try it, watch a log, use your data."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from engine.base.errors import UsageError
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.dialogs.choices import Choices
from grubrics_tui.screens.dialogs.new_config import NewConfigDialog
from grubrics_tui.screens.navigation import OpenChecklist, OpenLog, OpenRun
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import KeyFooter


def _find_logs(folder: Path) -> Iterable[Path]:
    # Imported here: the parsers of all formats would delay the first paint.
    from engine.formats.detect import find_likely_logs

    return find_likely_logs(folder)


_WIDEST = 72
"""Cells of a line of the list in a terminal of 80 columns."""


@dataclass(frozen=True)
class Choice:
    """One way to begin. ``prompt`` asks for a path; empty: no path is needed."""

    id: str
    title: str
    about: str
    prompt: str = ""
    suggest: Callable[[Path], Iterable[Path]] = lambda folder: ()
    """Files of a folder to suggest."""
    changes: bool = False
    """Whether it writes files, which read-only mode refuses."""


CHOICES = (
    Choice(
        "demo",
        "Try it",
        "train a tiny model here: no GPU, no network",
        changes=True,
    ),
    Choice(
        "log",
        "Watch a log",
        "written by another trainer",
        "Log file or folder",
        _find_logs,
    ),
    Choice(
        "data",
        "Start from your data",
        "write a config for conversations, questions or your own reward",
        changes=True,
    ),
    Choice("config", "Choose a config", "packaged configs for SFT and GRPO"),
)


class StartScreen(CockpitScreen):
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

    class Done(Message):
        """The thread has ended: ``follow`` opens the next screen."""

        def __init__(self, follow: Message) -> None:
            super().__init__()
            self.follow = follow

    class Reported(Message):
        """One line about the progress of the thread, or about what went wrong."""

        def __init__(self, text: str, *, failed: bool = False) -> None:
            super().__init__()
            self.text, self.failed = text, failed

    def __init__(self, runs_root: Path) -> None:
        super().__init__()
        self._runs_root = runs_root
        self._choice = CHOICES[0]

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
        choices = self.query_one(Choices)
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
        from engine.formats.detect import trainers

        choice = next(choice for choice in CHOICES if choice.id == "log")
        prompt = _line(choice, ", ".join(trainers()))
        self.query_one(Choices).replace_option_prompt(choice.id, prompt)

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        self._choice = next(choice for choice in CHOICES if choice.id == event.option_id)
        if self._choice.prompt:
            self._ask_path()
        elif self._choice.id == "config":
            self.post_message(OpenChecklist(""))
        elif self._choice.id == "data":
            self.action_new_config()
        else:
            self.query_one(Choices).disabled = True
            self._run_demo()

    def action_new_config(self) -> None:
        self.app.push_screen(NewConfigDialog(), self._open_config)

    def _ask_path(self) -> None:
        printable = (path for path in self._choice.suggest(Path()) if str(path).isprintable())
        existing = [path for path in printable if path.exists()]
        files = sorted(existing, key=lambda path: path.stat().st_mtime, reverse=True)
        field = self.query_one(Input)
        field.suggester = SuggestFromList(map(str, files))
        field.placeholder = self._choice.prompt
        field.value = str(files[0]) if files else ""
        field.display = True
        field.focus()
        self._report("enter open, → complete the name, esc back")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        path = Path(event.value.strip()).expanduser()
        if not event.value.strip():
            self._report(f"{self._choice.prompt}: type a path", failed=True)
        else:
            self._open_log(path)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _run_demo(self) -> None:
        from engine.launch.demo import launch_demo, make_demo_data, require_trainer

        try:
            require_trainer()
            self.post_message(self.Reported("generating data/tiny ..."))
            make_demo_data()
            self.post_message(self.Reported("launching SFT; GRPO waits for it ..."))
            first, *_ = launch_demo(self._runs_root)
        except UsageError as error:
            self.post_message(self.Reported(str(error), failed=True))
        else:
            self.post_message(self.Done(OpenRun(first)))

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _open_log(self, path: Path) -> None:
        from engine.formats.external_run import open_external

        try:
            log = open_external(path)
        except UsageError as error:
            if path.is_file() and path.stat().st_size:
                self.post_message(self.Done(OpenLog(path)))
            else:
                self.post_message(self.Reported(str(error), failed=True))
            return
        except OSError as error:
            self.post_message(self.Reported(f"{path}: {error.strerror}", failed=True))
            return
        as_text = log.format.is_console and not log.metrics
        self.post_message(self.Done(OpenLog(log.path) if as_text else OpenRun(log)))

    def _open_config(self, name: str | None) -> None:
        if name is not None:
            self.post_message(OpenChecklist(name))

    @on(Done)
    def _follow(self, message: Done) -> None:
        self.post_message(message.follow)

    @on(Reported)
    def _show_report(self, message: Reported) -> None:
        self._report(message.text, failed=message.failed)

    def _report(self, text: str, *, failed: bool = False) -> None:
        choices = self.query_one(Choices)
        if failed and choices.disabled:
            choices.disabled = False
            choices.focus()
        style = "$error" if failed else "$quiet"
        self.query_one("#status", Static).update(inert(Content.styled(text, style)))

    def action_back(self) -> None:
        """Close the field for a path."""
        self.query_one(Input).display = False
        self.query_one("#status", Static).update("")
        self.query_one(Choices).focus()

    def action_cursor_down(self) -> None:
        self.query_one(Choices).action_cursor_down()

    def action_cursor_up(self) -> None:
        self.query_one(Choices).action_cursor_up()


def _line(choice: Choice, about: str) -> Content:
    """The title, and beside it what it does; a long text continues on the next line."""
    width = max(len(choice.title) for choice in CHOICES) + 3
    wrapped = f"\n{' ' * width}".join(textwrap.wrap(about, _WIDEST - width))
    return Content.styled(choice.title.ljust(width), "bold") + Content.styled(wrapped, "$quiet")
