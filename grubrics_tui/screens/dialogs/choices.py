"""A list of choices, and the dialogs that ask for one of them, or for a value in a line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import UsageError
from engine.config.config_files import list_configs
from grubrics_tui.screens.base import Dialog, ScreenMixin
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert

T = TypeVar("T")


class Choices(OptionList):
    """One line per option, cut rather than wrapped; texts are never read as markup.

    A click takes an option. Where taking one starts something, the first click only selects it.
    """

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

    def __init__(self, title: str, *, selects_first: bool = False) -> None:
        super().__init__(markup=False)
        self.border_title = title
        self._selects_first = selects_first

    def on_click(self, event: events.Click) -> None:
        clicked = event.style.meta.get("option")
        if self._selects_first and clicked is not None and clicked != self.highlighted:
            event.prevent_default()
            self.highlighted = clicked


class WithChoices(ScreenMixin):
    """Mixin, before the screen's class: the keys of a list move the cursor of its ``Choices``."""

    @property
    def choices(self) -> Choices:
        return self.query_one(Choices)

    def action_cursor_down(self) -> None:
        self.choices.action_cursor_down()

    def action_cursor_up(self) -> None:
        self.choices.action_cursor_up()


class PickOne(WithChoices, Dialog[str]):
    """Answers what was picked, or None. Subclasses fill the list and read what was chosen."""

    DEFAULT_CSS = """
    PickOne {
        Choices { width: 90; max-width: 96%; height: auto; max-height: 80%; }
    }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title_of_list = title

    def compose(self) -> ComposeResult:
        yield Choices(self._title_of_list)


class PickName(PickOne):
    """Lists names, each with a word about it, as a thread finds them. Returns the chosen name."""

    WHERE = "names"
    BINDINGS = bindings("names")

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
        self.call_later(self._show, dict(self._find()))

    def _show(self, names: dict[str, str]) -> None:
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


def find_configs() -> Iterator[tuple[str, str]]:
    """The configs of this folder and the package, each with its kind and description."""
    for config in list_configs():
        yield config.name, f"{config.kind:<6}{config.description}"


class AskValue(Dialog[T]):
    """Returns what ``parse`` makes of the text, or None. A refusal is shown in one line."""

    WHERE = "ask"
    BINDINGS = bindings("ask")
    KEYS = (("enter", "apply"), ("esc", "cancel"))

    DEFAULT_CSS = """
    AskValue {
        & > Vertical { width: 60; max-width: 96%; height: auto; padding: 1 2; }
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
        yield box

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        try:
            value = self._parse(event.value.strip())
        except UsageError as error:
            self.query_one(Static).update(inert(Content.styled(str(error), "$error")))
        else:
            self.dismiss(value)
