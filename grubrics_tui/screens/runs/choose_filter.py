"""Choose one of the saved filters of the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual import on
from textual.content import Content
from textual.widgets.option_list import Option

from grubrics_tui.screens.dialogs.choices import Choices, PickOne
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import inert

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
