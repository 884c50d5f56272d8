"""A list of choices, and the dialog that asks for one of them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import OptionList

from grubrics_tui.screens.base import Dialog


class Choices(OptionList):
    """One line per option, cut rather than wrapped; texts are never read as markup."""

    DEFAULT_CSS = """
    Choices {
        background: $background;
        border: round $line;
        border-title-color: $quiet;
        border-subtitle-color: $quiet;
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus {
            border: round $line-focus;
            border-title-color: $primary;
            background-tint: $background 0%;
        }
        & > .option-list--option-highlighted,
        &:focus > .option-list--option-highlighted {
            background: $panel;
            color: $foreground;
            text-style: none;
        }
    }
    """

    def __init__(self, title: str) -> None:
        super().__init__(markup=False)
        self.border_title = title


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
