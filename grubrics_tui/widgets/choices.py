"""A quiet list to move in with j and k."""

from __future__ import annotations

from textual.widgets import OptionList


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
