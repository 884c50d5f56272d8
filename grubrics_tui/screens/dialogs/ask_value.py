"""Ask for one value in a line of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.errors import UsageError
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert

T = TypeVar("T")


class AskValue(Dialog[T]):
    """Returns what ``parse`` makes of the text, or None. A refusal is shown in one line."""

    WHERE = "ask"
    BINDINGS = bindings("ask")

    DEFAULT_CSS = """
    AskValue {
        align: center middle;
        & > Vertical {
            width: 60; max-width: 96%; height: auto; padding: 1 2;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        Static { margin-top: 1; }
    }
    """

    def __init__(self, title: str, text: str, hint: str, parse: Callable[[str], T]) -> None:
        """``parse`` raises UsageError for what is no value."""
        super().__init__()
        self._title_of_box, self._text, self._hint, self._parse = title, text, hint, parse

    def compose(self) -> ComposeResult:
        hint = Static(inert(Content.styled(self._hint, "$quiet")), markup=False)
        box = Vertical(Input(self._text), hint)
        box.border_title = inert(self._title_of_box)
        box.border_subtitle = "enter apply, esc cancel"
        yield box

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        try:
            value = self._parse(event.value.strip())
        except UsageError as error:
            self.query_one(Static).update(inert(Content.styled(str(error), "$error")))
        else:
            self.dismiss(value)

    def action_back(self) -> None:
        self.dismiss()
