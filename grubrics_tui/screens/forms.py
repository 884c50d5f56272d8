"""The screen of a form whose entry is appended to a Markdown file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from engine.base.errors import UsageError
from grubrics_tui.screens.base import FIELD_BINDINGS, CockpitScreen
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import KeyFooter


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

    class Drafted(Message):
        def __init__(self, texts: Mapping[str, str]) -> None:
            super().__init__()
            self.texts = texts

    class Appended(Message):
        """The entry was appended to the file as ``id``."""

        def __init__(self, id: str, path: Path) -> None:
            super().__init__()
            self.id, self.path = id, path

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

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
        self.post_message(self.Drafted(self.draft()))

    @on(Drafted)
    def _fill_in(self, message: Drafted) -> None:
        """Fill in the draft, except in fields that the user has typed in."""
        for name, _ in self.ONE_LINE:
            field = self.query_one(f"#{name}", Input)
            field.value = field.value or message.texts.get(name, "")
        for name, _ in self.MANY_LINES:
            area = self.query_one(f"#{name}", TextArea)
            area.text = area.text or message.texts.get(name, "")
        self._saved = {**dict.fromkeys(self.texts(), ""), **message.texts}
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
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(self.Appended(written, self._path))

    @on(Appended)
    def _show_appended(self, message: Appended) -> None:
        self._saved = self.texts()
        self.say(f"✓ {message.id} appended to {message.path}", "success")

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        self.say(f"✗ {message.reason}", "error")

    def action_back(self) -> None:
        if self.texts() != (self._saved or dict.fromkeys(self.texts(), "")) and not self._leaving:
            self._leaving = True
            self.say("Entry not saved. ctrl+s saves it, esc again discards it.", "warning")
            return
        self.app.pop_screen()

    def say(self, text: str, ink: str) -> None:
        """Show a line below the fields."""
        self.query_one("#outcome", Static).update(inert(Content.styled(text, f"${ink}")))
