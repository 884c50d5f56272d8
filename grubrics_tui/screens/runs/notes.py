"""Edit the tags and the note of a run."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from engine.base.errors import UsageError
from engine.run.notes import Notes, NotesChangedError, edit_notes
from engine.run.run import Run
from grubrics_tui.screens.base import FIELD_BINDINGS, Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert


class NotesScreen(Dialog[Notes]):
    """Returns what was saved, or None. Discarding typed text takes a second escape."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("notes"), *FIELD_BINDINGS]
    KEYS = (("ctrl+s", "save"), ("esc", "cancel"))

    DEFAULT_CSS = """
    NotesScreen {
        & > Vertical { width: 90; max-width: 96%; height: auto; max-height: 96%; padding: 1 2; }
        Static { height: auto; }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        TextArea {
            border: none; background: $background; height: 6; padding: 0 1; margin-bottom: 1;
            &:focus { border: none; background-tint: $background 0%; }
        }
        Input { margin-bottom: 1; }
    }
    """

    def __init__(self, run: Run, notes: Notes) -> None:
        super().__init__()
        self._run_dir, self._before = run, notes
        self._leaving = False

    def compose(self) -> ComposeResult:
        tags = Input(" ".join(self._before.tags), placeholder="baseline lr-sweep", id="tags")
        note = TextArea(self._before.text, tab_behavior="focus", id="note")
        box = Vertical(
            Static(Content.styled("tags (separated by spaces)", "$quiet")),
            tags,
            Static(Content.styled("note", "$quiet")),
            note,
            Static("", id="status", markup=False),
        )
        box.border_title = Content(f"Notes on {self._run_dir.id}")
        yield box

    def _typed(self) -> Notes:
        tags = self.query_one("#tags", Input).value.replace(",", " ").replace("#", " ").split()
        return Notes(tuple(tags), self.query_one("#note", TextArea).text)

    def action_save_notes(self) -> None:
        self._save(self._typed())

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _save(self, notes: Notes) -> None:
        try:
            saved = edit_notes(self._run_dir, self._before, notes.tags, notes.text)
        except (UsageError, OSError) as error:
            self.call_later(self._refuse, error)
        else:
            self.call_later(self.close, saved)

    def _refuse(self, error: Exception) -> None:
        text = str(error)
        if isinstance(error, NotesChangedError):
            self._before = error.now
            text += "\nctrl+s again replaces it."
        self._say(text, "error")

    def action_back(self) -> None:
        if self._typed() != self._before and not self._leaving:
            self._leaving = True
            self._say("Not saved. ctrl+s saves it, esc again discards it.", "warning")
            return
        self.dismiss()

    def _say(self, text: str, ink: str) -> None:
        self.query_one("#status", Static).update(inert(Content.styled(text, f"${ink}")))
