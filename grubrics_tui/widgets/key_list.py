"""The keys of a config as a list with values and origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.base.text import format_config_value
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.drawing.wrap import clipped
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import Fact
from grubrics_tui.widgets.span_widget import SpanWidget

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe
    from engine.runs.kinds import Kind

LONGEST_VALUE = 24


def find_keys(recipe: Recipe, query: str) -> list[str]:
    """The keys that match, best first. What a person has set comes first: most other keys have no
    effect on this config."""
    keys = ranked(query, recipe.values)
    return sorted(keys, key=lambda key: not recipe.is_chosen(key))


def key_facts(key: str, kind: Kind) -> list[Fact]:
    """What the values of a key must be, and what it means, as far as that was written down."""
    from engine.recipe.key_docs import describe_key

    doc = describe_key(key, kind)
    return [
        ("accepts", clean_text(doc.values) or "any value"),
        ("meaning", clean_text(doc.meaning) or "no description"),
    ]


class KeyList(SpanWidget):
    """Keys of a config with value and origin; scrolls to the selected one."""

    def __init__(self) -> None:
        super().__init__()
        self._recipe: Recipe | None = None
        self._keys: list[str] = []
        self._selected = 0

    def show(self, recipe: Recipe, keys: list[str], selected: int) -> None:
        self._recipe, self._keys, self._selected = recipe, keys, selected
        self.redraw("no key has this name")

    def draw(self, width: int, height: int) -> list[Row]:
        first = min(max(0, self._selected - height // 2), max(0, len(self._keys) - height))
        shown = enumerate(self._keys[first : first + height], start=first)
        recipe = self._recipe
        if recipe is None:
            return []
        return [_row(recipe, key, index == self._selected, width) for index, key in shown]


def _row(recipe: Recipe, key: str, is_selected: bool, width: int) -> Row:
    value = clipped(format_config_value(recipe.get(key)), LONGEST_VALUE)
    origin = recipe.origins.get(key, "default")
    room = max(10, width - LONGEST_VALUE - 14)
    paper = "line" if is_selected else ""
    name = key if len(key) <= room else f"…{key[1 - room :]}"
    return [
        Span(name.ljust(room), "primary" if is_selected else "", paper, is_selected),
        Span(f" {value:<{LONGEST_VALUE}}", "foreground", paper),
        Span(f" {origin:<12}", "quiet", paper),
    ]
