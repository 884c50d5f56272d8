"""Choose the columns of the list of runs."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets.option_list import Option

from engine.runs.columns import COLUMNS, Column
from grubrics_tui.screens.base import Dialog
from grubrics_tui.screens.dialogs.choices import Choices
from grubrics_tui.screens.runs.table import ALWAYS_SHOWN
from grubrics_tui.settings.actions import bindings

_COLUMNS = tuple(column for column in COLUMNS if column.name not in ALWAYS_SHOWN)
_DEFAULT = frozenset(column.name for column in _COLUMNS if column.cell)


class ChooseColumns(Dialog[frozenset[str]]):
    """Returns the names of columns, or None. An empty set stands for the default ones."""

    WHERE = "columns"
    BINDINGS = bindings("columns")

    DEFAULT_CSS = """
    ChooseColumns {
        align: center middle;
        Choices { width: 90; max-width: 96%; height: auto; max-height: 90%; }
    }
    """

    def __init__(self, chosen: Iterable[Column] | None) -> None:
        super().__init__()
        self._chosen = _DEFAULT if chosen is None else {column.name for column in chosen}

    def compose(self) -> ComposeResult:
        choices = Choices("Columns of the list of runs")
        choices.border_subtitle = "space on/off, enter apply, d default, esc cancel"
        yield choices

    def on_mount(self) -> None:
        self._choices.add_options(Option(self._line(column), id=column.name) for column in _COLUMNS)
        self._choices.highlighted = 0

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    def _line(self, column: Column) -> Content:
        sign = Content.styled("[x] " if column.name in self._chosen else "[ ] ", "$primary")
        head = column.head if column.head == column.name else f"{column.head} ({column.name})"
        return sign + Content(head.ljust(20)) + Content.styled(column.about, "$quiet")

    def _redraw(self) -> None:
        for column in _COLUMNS:
            self._choices.replace_option_prompt(column.name, self._line(column))

    def action_switch_column(self) -> None:
        index = self._choices.highlighted
        if index is not None:
            self._chosen = self._chosen ^ {_COLUMNS[index].name}
            self._redraw()

    def action_take_default(self) -> None:
        self._chosen = _DEFAULT
        self._redraw()

    @on(Choices.OptionSelected)
    def _apply(self) -> None:
        self.dismiss(frozenset() if self._chosen == _DEFAULT else frozenset(self._chosen))

    def action_back(self) -> None:
        self.dismiss()

    def action_cursor_down(self) -> None:
        self._choices.action_cursor_down()

    def action_cursor_up(self) -> None:
        self._choices.action_cursor_up()
