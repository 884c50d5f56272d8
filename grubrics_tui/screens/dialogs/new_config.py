"""Ask for data, scoring and model of a first config, and write it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from grubrics_tui.screens.base import FIELD_BINDINGS, Dialog, show_from_thread
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import inert

if TYPE_CHECKING:
    from engine.launch.new_config import NewConfig

_FIELDS = {
    "data": ("Data", "a JSONL, JSON, CSV or parquet file, or FILE.py:FUNCTION:COUNT"),
    "scoring": ("Scored by", "a task, your FILE.py[:FUNCTION], or nothing"),
    "model": ("Model", "a folder or a name on the hub; empty: Qwen/Qwen2.5-0.5B-Instruct"),
    "name": ("Name of the config", "the name of the data"),
}
"""Titles of the fields, and what they show while they are empty."""
_MODEL_PLACES = ("*", "*/*", "*/*/final", "*/*/*/final")
_NAMED_FILES = 4
_REPORTED = 1000
"""Records between two reports of the progress."""


class NewConfigDialog(Dialog[str]):
    """Returns the name of the config that was written, or None.

    Files and tasks are suggested. Below, the form shows what the data seems to be, the tasks, and
    whether the model can be loaded. Files and the hub are asked in threads.
    """

    WHERE = "new_config"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("new_config"), *FIELD_BINDINGS]
    KEYS = (("enter", "write"), ("tab", "next field"), ("→", "complete"), ("esc", "cancel"))
    AUTO_FOCUS = "#data"

    DEFAULT_CSS = """
    NewConfigDialog {
        & > VerticalScroll {
            width: 76; max-width: 96%; height: auto; max-height: 100%; padding: 0 1;
        }
        Input {
            height: 3; border: round $line; border-title-color: $quiet; background: $panel;
            padding: 0 1;
            &:focus {
                border: round $line-focus; border-title-color: $primary;
                background-tint: $panel 0%;
            }
        }
        Static { height: auto; padding: 0 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, str] = {}
        self._files: list[str] = []
        """The files that may be the data, the likeliest first."""
        self._data = ""
        """What the data seems to be."""
        self._model = ""
        """Where the model comes from."""
        self._is_answer = False
        """Whether what is below the fields is the answer to enter, which no hint replaces."""

    def compose(self) -> ComposeResult:
        # Focus must stay in a field: outside of one, letters are keys of the app.
        with VerticalScroll(can_focus=False) as box:
            box.border_title = "New config"
            for name, (title, placeholder) in _FIELDS.items():
                field = Input(id=name, placeholder=placeholder)
                field.border_title = title
                yield field
            yield Static(id="status", markup=False)

    def on_mount(self) -> None:
        self._suggest()

    @work(thread=True, exit_on_error=False)
    def _suggest(self) -> None:
        from engine.base.records import SUFFIXES
        from engine.tasks.registry import tasks

        data = [f"{place}*{suffix}" for place in ("", "data/", "data/*/") for suffix in SUFFIXES]
        models = _newest(f"{place}/config.json" for place in _MODEL_PLACES)
        summaries = {name: task.summary for name, task in tasks().items()}
        suggestions = {
            # A .json file may be anything; the other kinds are mostly records.
            "data": sorted(_newest(data), key=lambda path: path.endswith(".json")),
            "scoring": [*summaries, *_newest(("*.py", "rewards/*.py"))],
            "model": [str(Path(config).parent) for config in models],
        }
        self.call_later(self._offer, suggestions, summaries)

    def _offer(self, suggestions: dict[str, list[str]], tasks: dict[str, str]) -> None:
        self._tasks, self._files = tasks, suggestions["data"]
        for name, texts in suggestions.items():
            field = self.query_one(f"#{name}", Input)
            field.suggester = SuggestFromList(texts)
        self._renew_hint()

    @on(Input.Changed, "#data")
    def _describe(self, event: Input.Changed) -> None:
        self._is_answer = False
        if event.value.strip():
            self._read_data(event.value.strip())
        else:
            self.call_later(self._show_data, "", "")

    @work(thread=True, exclusive=True, group="describe", exit_on_error=False)
    def _read_data(self, typed: str) -> None:
        from engine.launch.new_config import describe_data

        try:
            text = describe_data(Path(typed).expanduser())
        except UsageError as error:
            text = str(error)
        self.call_later(self._show_data, typed, text)

    def _show_data(self, typed: str, text: str) -> None:
        if typed == self.query_one("#data", Input).value.strip():
            self._data = text
            self._renew_hint()

    @on(events.DescendantFocus)
    def _enter_field(self) -> None:
        if self._field in ("model", "name"):
            model = self.query_one("#model", Input).value.strip()
            show_from_thread(self, lambda: self._read_model(model), self._show_model)
        self._show_hint()

    def _read_model(self, model: str) -> Iterator[str]:
        from engine.launch.new_config import describe_model

        yield describe_model(model, os.environ)

    def _show_model(self, text: str) -> None:
        self._model = text
        self._renew_hint()

    def _renew_hint(self) -> None:
        if not self._is_answer:
            self._show_hint()

    @on(Input.Changed, "#scoring")
    def _show_hint(self) -> None:
        """Below the fields, help with the one that has the focus."""
        hints = {
            "data": [self._data or self._format_files()],
            "scoring": [self._data, self._format_tasks()],
            "model": [self._model],
            "name": [self._model],
        }
        hint = "\n".join(filter(None, hints.get(self._field, ())))
        self._show_status(hint, "quiet", is_answer=False)

    @property
    def _field(self) -> str:
        return (self.focused.id or "") if self.focused is not None else ""

    def _format_files(self) -> str:
        """The newest files, of which one may be the data."""
        return f"files here: {', '.join(self._files[:_NAMED_FILES])}" if self._files else ""

    def _format_tasks(self) -> str:
        """The task that is typed, else the names of all."""
        typed = self.query_one("#scoring", Input).value.strip()
        if typed in self._tasks:
            return f"{typed}: {self._tasks[typed]}"
        return f"tasks: {', '.join(self._tasks)}"

    @on(Input.Submitted)
    def _submit(self) -> None:
        values = {name: self.query_one(f"#{name}", Input).value.strip() for name in _FIELDS}
        if not values["data"]:
            self._show_status("Data: type the path of a JSONL, JSON, CSV or parquet file", "error")
            self.query_one("#data").focus()
            return
        self._show_status("Writing ...", "quiet")
        self._write(**values)

    @work(thread=True, exclusive=True, group="write", exit_on_error=False)
    def _write(self, data: str, scoring: str, model: str, name: str) -> None:
        from engine.launch.new_config import Words, write_config

        titles = {name: f"'{title}'" for name, (title, _) in _FIELDS.items()}
        words = Words(
            name=titles["name"],
            scoring=titles["scoring"],
            task=f"type {{task}} into {titles['scoring']}",
            options=(),
        )
        is_own = ".py" in scoring
        try:
            config = write_config(
                Path(data).expanduser(),
                name or None,
                model or None,
                task=None if is_own else scoring or None,
                reward=scoring if is_own else None,
                report=self._report,
                words=words,
            )
        except UsageError as error:
            self.call_later(self._show_status, str(error), "error")
        else:
            self.call_later(self._close, config)

    def _report(self, read: int, source: str) -> None:
        if read % _REPORTED == 0:
            self.call_later(self._show_status, f"{format_count(read, 'record')} read ...", "quiet")

    def _close(self, config: NewConfig) -> None:
        lines = [f"wrote {config.path}"]
        if config.reward is not None:
            lines.append(f"wrote {config.reward}: edit how a response is scored")
        if config.missing is not None:
            lines.append(f"create {config.missing}: validation rows")
        limits = config.prepared.limits if config.prepared is not None else ()
        lines += [f"warning: {limit}" for limit in limits]
        lines += [f"note: {note}" for note in config.notes]
        self.app.notify(clean_text("\n".join(lines)), markup=False)
        self.dismiss(config.name)

    def _show_status(self, text: str, ink: str, *, is_answer: bool = True) -> None:
        self._is_answer = is_answer
        status = Content.styled(clean_text(text), f"${ink}")
        self.query_one("#status", Static).update(inert(status))


def _newest(patterns: Iterable[str]) -> list[str]:
    """The files of this folder that match, the newest first."""
    found = {path for pattern in patterns for path in Path().glob(pattern) if path.is_file()}
    printable = (path for path in found if str(path).isprintable())
    return [str(path) for path in sorted(printable, key=lambda path: -path.stat().st_mtime)]
