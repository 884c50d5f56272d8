"""The keys of a config as a list with values and origins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.base.text import format_config_value
from grubrics_tui.drawing.spans import Row, Span, clipped
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import Fact
from grubrics_tui.widgets.row_list import RowList

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


class KeyList(RowList):
    """Keys of a config with value and origin."""

    IS_CENTERED = True

    def __init__(self) -> None:
        super().__init__()
        self._recipe: Recipe | None = None
        self._keys: Sequence[str] = ()

    def count(self) -> int:
        return len(self._keys)

    @property
    def selected(self) -> str | None:
        return self._keys[self.cursor] if self._keys else None

    def show(self, recipe: Recipe, keys: Sequence[str]) -> None:
        """With the cursor on the first key."""
        self._recipe, self._keys, self.cursor = recipe, keys, 0
        self.changed("no key has this name")

    def draw_lines(self, shown: range, width: int) -> list[Row]:
        assert self._recipe is not None
        return [_row(self._recipe, self._keys[n], n == self.cursor, width) for n in shown]


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
