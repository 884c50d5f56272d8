"""The categories of findings, with which every finding ID begins. Configs are checked by them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from engine.base.yaml_files import read_table

IDS = Path(__file__).with_name("finding_ids.txt")

ALERTS = ("critical", "error", "warning")


class Category(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of ``categories.yaml``, which describes the fields."""

    part: str = "the engine"
    external: str | None = None
    resumable: bool = False
    counts_when_finished: bool = False


@cache
def categories() -> Mapping[str, Category]:
    table = read_table(Path(__file__).with_suffix(".yaml"))
    return msgspec.convert(table, dict[str, Category])


def find_category(name: str) -> Category:
    """Return the category; one that only another package's rules use blames the engine."""
    return categories().get(name) or Category()


def alternatives_to(name: str) -> tuple[str, ...]:
    """Return the names to choose from if no finding has this name; empty if one does."""
    if name in ALERTS or name in categories():
        return ()
    if name.partition(".")[0] not in categories():
        return (*ALERTS, *categories())
    ids = finding_ids()
    return () if name in ids or name in _plugin_ids() else ids


@cache
def finding_ids() -> tuple[str, ...]:
    """Return the IDs of all rules, from the generated list: loading the rules would be slow."""
    return tuple(IDS.read_text(encoding="utf-8").split())


def _plugin_ids() -> frozenset[str]:
    """Return the IDs of the kinds of findings that rules of other packages list."""
    from engine.base.plugins import load  # Needed only for a name that is unknown so far.
    from engine.run.finding_kind import METRIC_RULES, REWARD_RULES, Rule

    rules = (rule for group in (METRIC_RULES, REWARD_RULES) for rule in load(group, Rule).objects)
    return frozenset(finding_kind.id for rule in rules for finding_kind in rule.finding_kinds)
