"""Values of a run that follow from others: they are no difference in what was trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from engine.recipe.keys import flatten, verl_defaults

Config = Mapping[str, Mapping[str, Any]]
"""Value and origin by dotted key, as in a manifest."""


def derived_keys(config: Config) -> frozenset[str]:
    """The keys whose values nobody set and that follow from other values.

    Earlier versions recorded the origin of a default that refers to another key as ``default``.
    """
    return frozenset(_derived(config))


def _derived(config: Config) -> Iterator[str]:
    for key, entry in config.items():
        origin = entry.get("origin")
        if origin == "implied" or (origin == "default" and key in _references()):
            yield key


@cache
def _references() -> frozenset[str]:
    """The keys whose default in verl is a reference to another key."""
    return frozenset(key for key, value in flatten(verl_defaults()) if "${" in str(value))
