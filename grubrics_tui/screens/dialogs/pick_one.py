"""A list to pick one entry of."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from grubrics_tui.screens.base import Dialog
from grubrics_tui.widgets.choices import Choices


class PickOne(Dialog[str]):
    """Answers what was picked, or None. Subclasses fill the list and read what was chosen."""

    TITLE_OF_LIST: ClassVar[str] = ""

    DEFAULT_CSS = """
    PickOne {
        align: center middle;
        Choices { width: 90; max-width: 96%; height: auto; max-height: 80%; }
    }
    """

    def compose(self) -> ComposeResult:
        yield Choices(self.TITLE_OF_LIST)

    @property
    def choices(self) -> Choices:
        return self.query_one(Choices)

    def action_back(self) -> None:
        self.dismiss()

    def action_cursor_down(self) -> None:
        self.choices.action_cursor_down()

    def action_cursor_up(self) -> None:
        self.choices.action_cursor_up()
