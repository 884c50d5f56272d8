"""A list of choices, and the dialog that asks for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert


class Choices(OptionList):
    """One line per option, cut rather than wrapped; texts are never read as markup."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "page_down", show=False),
        Binding("ctrl+u", "page_up", show=False),
    ]

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
            background: $line;
            color: $foreground;
            text-style: bold;
        }
    }
    """

    def __init__(self, title: str) -> None:
        super().__init__(markup=False)
        self.border_title = title


class PickOne(Dialog[str]):
    """Answers what was picked, or None. Subclasses fill the list and read what was chosen."""

    DEFAULT_CSS = """
    PickOne {
        align: center middle;
        Choices { width: 90; max-width: 96%; height: auto; max-height: 80%; }
    }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title_of_list = title

    def compose(self) -> ComposeResult:
        yield Choices(self._title_of_list)

    @property
    def choices(self) -> Choices:
        return self.query_one(Choices)

    def action_back(self) -> None:
        self.dismiss()

    def action_cursor_down(self) -> None:
        self.choices.action_cursor_down()

    def action_cursor_up(self) -> None:
        self.choices.action_cursor_up()


class PickName(PickOne):
    """Lists names, each with a word about it, as a thread finds them. Returns the chosen name."""

    WHERE = "names"
    BINDINGS = bindings("names")

    class Listed(Message):
        def __init__(self, names: dict[str, str]) -> None:
            super().__init__()
            self.names = names

    def __init__(
        self, title: str, find: Callable[[], Iterable[tuple[str, str]]], current: str = ""
    ) -> None:
        """``find`` returns names with what to say of each; ``current`` is selected at first."""
        super().__init__(title)
        self._find, self._current = find, current

    def on_mount(self) -> None:
        self._list()

    @work(thread=True, exit_on_error=False)
    def _list(self) -> None:
        self.post_message(self.Listed(dict(self._find())))

    @on(Listed)
    def _show(self, message: Listed) -> None:
        names = message.names
        width = max(map(len, names), default=0) + 2
        self.choices.add_options(
            Option(
                inert(Content.styled(name.ljust(width), "bold") + Content.styled(about, "$quiet")),
                id=name,
            )
            for name, about in names.items()
        )
        self.choices.highlighted = list(names).index(self._current) if self._current in names else 0
        if not names:
            self.choices.border_subtitle = "nothing found"

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        self.dismiss(event.option_id)
