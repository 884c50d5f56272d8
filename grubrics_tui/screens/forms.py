"""Forms whose entry is appended to a Markdown file: the log entry of a run, and a decision."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static, TextArea
from textual.worker import get_current_worker

from engine.base.errors import UsageError
from engine.base.quantities import format_date
from engine.run.run import Run
from grubrics_tui.screens.base import FIELD_BINDINGS, CockpitScreen
from grubrics_tui.screens.dialogs.confirm import when_trusted
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import blanked
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.report.entry import LogEntry


class FormScreen(CockpitScreen):
    """Nothing is written before ctrl+s; discarding typed text takes a second escape.

    Subclasses name the fields, make the draft, and append the entry; the last two in a thread.
    """

    BINDINGS = FIELD_BINDINGS

    ONE_LINE: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Fields of one line: name and title."""
    MANY_LINES: ClassVar[tuple[tuple[str, str], ...]] = ()

    DEFAULT_CSS = """
    FormScreen {
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

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._saved: Mapping[str, str] | None = None
        self._leaving = False

    def draft(self) -> Mapping[str, str]:
        """The texts of the fields to begin with."""
        raise NotImplementedError

    def append(self, texts: Mapping[str, str]) -> str:
        """Append the entry to the file and return its ID. UsageError if it is refused."""
        raise NotImplementedError

    def when_allowed(self, texts: Mapping[str, str]) -> None:
        """Append the entry, or ask the user first."""
        self.run_append(texts)

    def compose(self) -> ComposeResult:
        # Focus must stay in a field: outside of one, letters are keys of the app.
        with VerticalScroll(can_focus=False):
            for name, title in self.ONE_LINE:
                field = Input(id=name)
                field.border_title = title
                yield field
            for name, title in self.MANY_LINES:
                area = TextArea(id=name, tab_behavior="focus")
                area.border_title = title
                yield area
        yield Static("", id="outcome", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        self._make_draft()

    @work(thread=True, exit_on_error=False)
    def _make_draft(self) -> None:
        self.call_later(self.fill_in, self.draft())

    def fill_in(self, texts: Mapping[str, str]) -> None:
        """Fill in the draft, except in fields that the user has typed in."""
        for name, _ in self.ONE_LINE:
            field = self.query_one(f"#{name}", Input)
            field.value = field.value or texts.get(name, "")
        for name, _ in self.MANY_LINES:
            area = self.query_one(f"#{name}", TextArea)
            area.text = area.text or texts.get(name, "")
        self._saved = {**dict.fromkeys(self.texts(), ""), **texts}
        self.say(f"ctrl+s appends the entry to {self._path}", "quiet")

    def texts(self) -> dict[str, str]:
        """The current text of every field."""
        texts = {name: self.query_one(f"#{name}", Input).value for name, _ in self.ONE_LINE}
        return texts | {
            name: self.query_one(f"#{name}", TextArea).text for name, _ in self.MANY_LINES
        }

    def action_save_entry(self) -> None:
        if self._saved is not None:
            self.when_allowed(self.texts())

    @work(thread=True, exclusive=True, group="append", exit_on_error=False)
    def run_append(self, texts: Mapping[str, str]) -> None:
        try:
            written = self.append(texts)
        except UsageError as error:
            self.call_later(self.say, f"✗ {error}", "error")
        else:
            self.call_later(self.show_appended, written)

    def show_appended(self, id: str) -> None:
        self._saved = self.texts()
        self.say(f"✓ {id} appended to {self._path}", "success")

    def action_back(self) -> None:
        if self.texts() != (self._saved or dict.fromkeys(self.texts(), "")) and not self._leaving:
            self._leaving = True
            self.say("Entry not saved. ctrl+s saves it, esc again discards it.", "warning")
            return
        self.app.pop_screen()

    def say(self, text: str, ink: str) -> None:
        """Show a line below the fields."""
        self.query_one("#outcome", Static).update(inert(Content.styled(text, f"${ink}")))


class DecisionScreen(FormScreen):
    """``context``: what is known already, such as the verdicts of an ablation."""

    AUTO_FOCUS = "#title"
    BINDINGS = bindings("decision")
    WHERE = "decision"

    ONE_LINE = (("title", "What was decided"), ("revisit", "Revisit when"))
    MANY_LINES = (
        ("context", "Context"),
        ("alternatives", "Alternatives"),
        ("decision", "Decision"),
        ("reason", "Reason"),
    )

    def __init__(self, path: Path, context: str) -> None:
        super().__init__(path)
        self._known_so_far = context

    def draft(self) -> Mapping[str, str]:
        return {"context": "\n".join(map(blanked, self._known_so_far.splitlines()))}

    def append(self, texts: Mapping[str, str]) -> str:
        from engine.report.decisions import Decision, append_decision

        return append_decision(self._path, Decision(date=format_date(), **texts))


class LogEntryScreen(FormScreen):
    """The entry of one run."""

    AUTO_FOCUS = "#question"
    BINDINGS = bindings("log_entry")
    WHERE = "log_entry"

    ONE_LINE = (("id", "ID"), ("title", "Title"), ("question", "Research question"))
    MANY_LINES = (
        ("config", "Config"),
        ("result", "Result"),
        ("observations", "Observations"),
        ("decision", "Decision"),
    )

    def __init__(self, run: Run, path: Path) -> None:
        super().__init__(path)
        self.run = run
        self._entry: LogEntry | None = None

    def on_mount(self) -> None:
        self.say(f"Drafting from {self.run.path} ...", "quiet")
        super().on_mount()

    def draft(self) -> Mapping[str, str]:
        from engine.doctor.health import health_of
        from engine.report.entry import drafted, next_id

        worker = get_current_worker()
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        health = health_of(self.run, stopped=lambda: worker.is_cancelled)
        self._entry = dataclasses.replace(drafted(self.run, health), id=next_id(text))
        return {name: getattr(self._entry, name) for name, _ in (*self.ONE_LINE, *self.MANY_LINES)}

    def when_allowed(self, texts: Mapping[str, str]) -> None:
        def append() -> None:
            self.run_append(texts)

        when_trusted(self, [self.run], append)

    def append(self, texts: Mapping[str, str]) -> str:
        from engine.report.entry import append_entry

        assert self._entry is not None
        return append_entry(self._path, dataclasses.replace(self._entry, **texts))
