"""The keys of the screen below, with the shell commands that do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from grubrics_tui.screens.base import Dialog, Scrolls
from grubrics_tui.settings.actions import Action, actions_of, bindings, remapped
from grubrics_tui.settings.keys import format_keys

_WIDTH, _FRAME, _GROUP = 96, 5, 10
"""Cells of the whole, of border, padding and scroll bar, and of the name of a group."""
_BESIDE = 36
"""The width from which the names of groups are beside the keys."""
_GAP = "   "
_ORDER = ("Actions", "Panels", "Chart", "Table", "Log", "Move", "Global")
_UNAVAILABLE, _CLI = "Inactive", "CLI"
_PROGRAM = "grubrics-tui "
_TITLES = {
    "preflight": "preflight checks",
    "choose": "choose from a list",
    "compare": "comparison",
    "names": "list of names",
    "guide": "plan an ablation",
    "run_summary": "run summary",
    "launch": "launch review",
    "orphans": "orphaned processes",
    "live": "live view",
    "metrics": "find a metric",
    "sources": "choose a process",
    "whole_values": "full values",
}
"""Titles of screens that differ from their names in the registry."""

Entries = dict[str, list[str]]
"""What keys do, in short, and the keys."""


class HelpScreen(Scrolls, Dialog[None]):
    """Shows the action registry: one row per group of keys, and those that do nothing now."""

    BINDINGS = bindings("help")

    DEFAULT_CSS = """
    HelpScreen {
        & > VerticalScroll {
            width: 96; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        }
    }
    """

    def __init__(
        self, where: str, keys: Mapping[str, str], offers: Callable[[Action], bool]
    ) -> None:
        """``keys`` are those of the settings; ``offers`` tells whether a key does something now."""
        super().__init__()
        self._where = where
        self._actions = [remapped(action, keys) for action in actions_of(where)]
        self._offers = offers

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static(markup=False))
        box.border_title = f"Keys: {_TITLES.get(self._where, self._where.replace('_', ' '))}"
        box.border_subtitle = "esc close"
        yield box

    def on_resize(self, event: events.Resize) -> None:
        # Before the refresh, the box would keep the height of the text that it had.
        self.call_after_refresh(self._wrap, event.size.width)

    def _wrap(self, width: int) -> None:
        group = _GROUP if width >= _BESIDE else 0
        room = min(_WIDTH, width) - _FRAME - group
        lines = [line for name, row in self._rows() for line in _lines(name, row, room, group)]
        self.query_one(Static).update(Content("\n").join(lines))

    def _rows(self) -> Iterator[tuple[str, list[Content]]]:
        """The name of each group and its entries."""
        groups: dict[str, Entries] = {name: {} for name in (*_ORDER, _UNAVAILABLE)}
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        for action in self._actions:
            name = (action.group or "Actions") if self._offers(action) else _UNAVAILABLE
            words = action.short or action.label or action.description
            keys = groups.setdefault(name, {}).setdefault(words, [])
            keys.append(format_keys(action.key, ascii_only=ascii_only))
        for name, entries in groups.items():
            inks = (
                ("$quiet", "$quiet") if name == _UNAVAILABLE else ("bold $primary", "$foreground")
            )
            yield (
                name,
                [
                    Content.styled(_join(keys), inks[0]) + Content.styled(f" {words}", inks[1])
                    for words, keys in entries.items()
                ],
            )
        commands = dict.fromkeys(a.cli_equivalent for a in self._actions if a.cli_equivalent)
        yield (
            _CLI,
            [
                Content.styled(command.replace(_PROGRAM, "", -1 if index else 0), "$quiet")
                for index, command in enumerate(commands)
            ],
        )


def _join(keys: list[str]) -> str:
    """``1-9`` for consecutive digits; other keys side by side."""
    is_range = len(keys) > 2 and "".join(keys) in "123456789"
    return f"{keys[0]}-{keys[-1]}" if is_range else " ".join(dict.fromkeys(keys))


def _lines(name: str, entries: Iterable[Content], room: int, group: int) -> Iterator[Content]:
    """A row of entries, continued below itself; nothing for an empty one. An entry is broken only
    if it alone does not fit. The name is in a column of ``group`` characters, or above if it is 0.
    """
    label, line = name, Content("")
    entries = list(entries)
    if group == 0 and entries:
        yield Content.styled(name, "bold")
        label = ""
    for entry in (part for whole in entries for part in whole.wrap(max(1, room))):
        if line and line.cell_length + len(_GAP) + entry.cell_length > room:
            yield Content.styled(label.ljust(group), "bold") + line
            label, line = "", Content("")
        line = line + (_GAP if line else "") + entry
    if line:
        yield Content.styled(label.ljust(group), "bold") + line
