"""The experiment-log entry of a run: drafted from its files, completed by the user."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static, TextArea
from textual.worker import get_current_worker

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.dialogs.trust import when_trusted
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.reports.entry import LogEntry

ONE_LINE = (("id", "ID"), ("title", "Title"), ("question", "Research question"))
MANY_LINES = (
    ("config", "Config"),
    ("result", "Result"),
    ("observations", "Observations"),
    ("decision", "Decision"),
)


class LogEntryScreen(CockpitScreen):
    """Nothing is written before ctrl+s; discarding typed text takes a second escape."""

    AUTO_FOCUS = "#question"
    BINDINGS = bindings("log_entry")
    WHERE = "log_entry"

    DEFAULT_CSS = """
    LogEntryScreen {
        VerticalScroll { margin: 0 1; }
        Input, TextArea {
            border: round $line; border-title-color: $quiet; background: $background; padding: 0 1;
            &:focus {
                border: round $line-focus; border-title-color: $primary;
                background-tint: $background 0%;
            }
        }
        Input { height: 3; }
        TextArea { height: auto; min-height: 4; max-height: 12; }
        #outcome { margin: 0 2; height: auto; max-height: 3; }
    }
    """

    class Drafted(Message):
        def __init__(self, entry: LogEntry) -> None:
            super().__init__()
            self.entry = entry

    class Appended(Message):
        """The entry was appended to the log as ``id``."""

        def __init__(self, id: str, path: Path) -> None:
            super().__init__()
            self.id, self.path = id, path

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, run: RunDir, path: Path) -> None:
        super().__init__()
        self.run = run
        self._path = path
        self._draft: LogEntry | None = None
        self._leaving = False

    def compose(self) -> ComposeResult:
        # Focus must stay in a field: outside of one, letters are keys of the app.
        with VerticalScroll(can_focus=False):
            for name, title in ONE_LINE:
                field = Input(id=name)
                field.border_title = title
                yield field
            for name, title in MANY_LINES:
                area = TextArea(id=name, tab_behavior="focus")
                area.border_title = title
                yield area
        yield Static("", id="outcome", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self._say(f"Drafting from {self.run.path} ...", "quiet")
        self._make_draft()

    @work(thread=True, exit_on_error=False)
    def _make_draft(self) -> None:
        from engine.doctor.health import health_of
        from engine.reports.entry import drafted
        from engine.reports.experiment_log import next_id

        worker = get_current_worker()
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        health = health_of(self.run, stopped=lambda: worker.is_cancelled)
        entry = dataclasses.replace(drafted(self.run, health), id=next_id(text))
        self.post_message(self.Drafted(entry))

    @on(Drafted)
    def _fill_in(self, message: Drafted) -> None:
        """Fill in the draft, except in fields that the user has typed in."""
        self._draft = message.entry
        for name, _ in ONE_LINE:
            field = self.query_one(f"#{name}", Input)
            field.value = field.value or getattr(message.entry, name)
        for name, _ in MANY_LINES:
            area = self.query_one(f"#{name}", TextArea)
            area.text = area.text or getattr(message.entry, name)
        self._say(f"ctrl+s appends the entry to {self._path}", "quiet")

    def entry(self) -> LogEntry | None:
        """The entry as typed into the form."""
        if self._draft is None:
            return None
        texts = {name: self.query_one(f"#{name}", Input).value for name, _ in ONE_LINE}
        texts |= {name: self.query_one(f"#{name}", TextArea).text for name, _ in MANY_LINES}
        return dataclasses.replace(self._draft, **texts)

    def action_save_entry(self) -> None:
        if (entry := self.entry()) is not None:

            def append() -> None:
                self._append(entry)

            when_trusted(self, [self.run], append)

    @work(thread=True, exclusive=True, group="append", exit_on_error=False)
    def _append(self, entry: LogEntry) -> None:
        from engine.reports.experiment_log import append_entry

        try:
            written = append_entry(self._path, entry)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(self.Appended(written, self._path))

    @on(Appended)
    def _show_appended(self, message: Appended) -> None:
        self._draft = self.entry()
        self._say(f"✓ {message.id} appended to {message.path}", "success")

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        self._say(f"✗ {message.reason}", "error")

    def action_back(self) -> None:
        if self.entry() != self._draft and not self._leaving:
            self._leaving = True
            self._say("Entry not saved. ctrl+s saves it, esc again discards it.", "warning")
            return
        self.app.pop_screen()

    def _say(self, text: str, ink: str) -> None:
        self.query_one("#outcome", Static).update(inert(Content.styled(text, f"${ink}")))
