"""The keys of a config as a list with values and origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.base.text import format_config_value
from grubrics_tui.drawing.spans import Row, Span, clipped
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import Fact
from grubrics_tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.run.kinds import Kind

LONGEST_VALUE = 24


def find_keys(config: Config, query: str) -> list[str]:
    """The keys that match, best first. What a person has set comes first: most other keys have no
    effect on this config."""
    keys = ranked(query, config.values)
    return sorted(keys, key=lambda key: not config.is_chosen(key))


def key_facts(key: str, kind: Kind) -> list[Fact]:
    """What the values of a key must be, and what it means, as far as that was written down."""
    from engine.config.key_docs import describe_key

    doc = describe_key(key, kind)
    return [
        ("accepts", clean_text(doc.values) or "any value"),
        ("meaning", clean_text(doc.meaning) or "no description"),
    ]


class KeyList(RowList[str]):
    """Keys of a config with value and origin."""

    IS_CENTERED = True

    def __init__(self) -> None:
        super().__init__()
        self._config: Config | None = None

    def fill(self, config: Config, query: str) -> None:
        """With the cursor on the best match."""
        self._config = config
        self.show(find_keys(config, query), "no key has this name", cursor=0)

    def draw_items(self, shown: range, width: int) -> list[Row]:
        assert self._config is not None
        return [_row(self._config, self.items[n], n == self.cursor, width) for n in shown]


def _row(config: Config, key: str, is_selected: bool, width: int) -> Row:
    value = clipped(format_config_value(config.get(key)), LONGEST_VALUE)
    origin = config.origins.get(key, "default")
    room = max(10, width - LONGEST_VALUE - 14)
    paper = "line" if is_selected else ""
    name = key if len(key) <= room else f"…{key[1 - room :]}"
    return [
        Span(name.ljust(room), "primary" if is_selected else "", paper, is_selected),
        Span(f" {value:<{LONGEST_VALUE}}", "foreground", paper),
        Span(f" {origin:<12}", "quiet", paper),
    ]
