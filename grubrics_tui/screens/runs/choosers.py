"""Choose the columns of the list of runs, or one of its saved filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets.option_list import Option

from engine.run.columns import COLUMNS, Column
from grubrics_tui.screens.base import Dialog
from grubrics_tui.screens.dialogs.choices import Choices, PickOne, WithChoices
from grubrics_tui.screens.runs.table import ALWAYS_SHOWN
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import inert

_COLUMNS = tuple(column for column in COLUMNS if column.name not in ALWAYS_SHOWN)
_DEFAULT = frozenset(column.name for column in _COLUMNS if column.cell)


class ChooseColumns(WithChoices, Dialog[frozenset[str]]):
    """Returns the names of columns, or None. An empty set stands for the default ones."""

    WHERE = "columns"
    BINDINGS = bindings("columns")
    KEYS = (("space", "on/off"), ("enter", "apply"), ("d", "default"), ("esc", "cancel"))

    DEFAULT_CSS = """
    ChooseColumns {
        Choices { width: 90; max-width: 96%; height: auto; max-height: 90%; }
    }
    """

    def __init__(self, chosen: Iterable[Column] | None) -> None:
        super().__init__()
        self._chosen = _DEFAULT if chosen is None else {column.name for column in chosen}

    def compose(self) -> ComposeResult:
        yield Choices("Columns of the list of runs")

    def on_mount(self) -> None:
        self.choices.add_options(Option(self._line(column), id=column.name) for column in _COLUMNS)
        self.choices.highlighted = 0

    def _line(self, column: Column) -> Content:
        sign = Content.styled("[x] " if column.name in self._chosen else "[ ] ", "$primary")
        head = column.head if column.head == column.name else f"{column.head} ({column.name})"
        return sign + Content(head.ljust(20)) + Content.styled(column.about, "$quiet")

    def _redraw(self) -> None:
        for column in _COLUMNS:
            self.choices.replace_option_prompt(column.name, self._line(column))

    def action_switch_column(self) -> None:
        index = self.choices.highlighted
        if index is not None:
            self._chosen = self._chosen ^ {_COLUMNS[index].name}
            self._redraw()

    def action_take_default(self) -> None:
        self._chosen = _DEFAULT
        self._redraw()

    @on(Choices.OptionSelected)
    def _apply(self) -> None:
        self.dismiss(frozenset() if self._chosen == _DEFAULT else frozenset(self._chosen))


_NONE = "none yet: type a filter with /, then press ctrl+s"


class ChooseFilter(PickOne):
    """Returns the expression of a filter, or None; ``remove`` forgets the one of that name."""

    WHERE = "filters"
    BINDINGS = bindings("filters")

    def __init__(self, filters: Mapping[str, str], remove: Callable[[str], None]) -> None:
        super().__init__("Saved filters")
        self._filters, self._remove = dict(filters), remove

    def on_mount(self) -> None:
        self._show()
        self.choices.focus()

    def _show(self) -> None:
        names, index = list(self._filters), self.choices.highlighted or 0
        width = max(map(len, names), default=0)
        self.choices.clear_options()
        self.choices.add_options(
            Option(_line(number, name, width, self._filters[name]), id=name)
            for number, name in enumerate(names, start=1)
        )
        self.choices.highlighted = min(index, len(names) - 1) if names else None
        keys = "enter or a digit apply, d delete, esc cancel" if names else _NONE
        self.choices.border_subtitle = keys

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        self.action_take(event.option_index)

    def action_take(self, index: int) -> None:
        expressions = list(self._filters.values())
        if index < len(expressions):
            self.dismiss(expressions[index])

    def action_delete_filter(self) -> None:
        index = self.choices.highlighted
        if index is not None:
            name = list(self._filters)[index]
            self._remove(name)
            del self._filters[name]
            self._show()


def _line(number: int, name: str, width: int, expression: str) -> Content:
    digit = f"{number}  " if number <= 9 else "   "
    text = clean_text(expression)
    return inert(
        Content.styled(digit, "$primary")
        + Content.styled(clean_text(name).ljust(width + 2), "bold")
        + Content.styled(text, "$quiet")
    )
