"""Rules on keys: what a recipe does not read, under which condition, and what to set instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from engine.recipe.recipe import Recipe


@dataclass(frozen=True)
class Condition:
    """A condition on a recipe, with the reason and the alternative of rules that name none.

    ``key`` is the switch that decides: wildcards of a rule do not cover it.
    """

    holds: Callable[[Recipe], bool]
    reason: str = ""
    instead: str | None = None
    key: str = ""


ALWAYS = Condition(lambda _: True)


def off(key: str) -> Condition:
    """The switch ``key`` is false or null."""
    return Condition(lambda recipe: not recipe.get(key), f"{key} is off", f"{key}=true", key)


def unset(key: str, example: str) -> Condition:
    """``key`` is null, empty or 0; ``example`` is a value to set."""
    return Condition(
        lambda recipe: not recipe.get(key), f"{key} is not set", f"{key}={example}", key
    )


def equals(key: str, *values: Any) -> Condition:
    """``key`` has one of ``values``."""
    return Condition(lambda recipe: recipe.get(key) in values, key=key)


def differs(key: str, *values: Any) -> Condition:
    """``key`` has none of ``values``."""
    return Condition(lambda recipe: recipe.get(key) not in values, key=key)


def only_with(key: str, *values: str) -> Condition:
    """``key`` has none of ``values``, with which alone the keys are read."""
    return Condition(
        lambda recipe: recipe.get(key) not in values,
        f"it is read only with {key}={' or '.join(values)}",
        f"{key}={values[0]}",
        key,
    )


def below(section: str, names: str) -> str:
    """Return the ``names``, separated by spaces, as keys of ``section``."""
    return " ".join(f"{section}.{name}" for name in names.split())


@dataclass(frozen=True)
class Rule:
    """The recipe does not read ``keys`` while ``when`` holds, for a reason.

    ``keys`` and the exceptions ``but`` are separated by spaces; ``*`` stands for any text.
    """

    keys: str
    reason: str = ""
    instead: str | None = None
    when: Condition = ALWAYS
    but: str = ""

    def covers(self, key: str) -> bool:
        if key in self._names:
            return True
        return any(fnmatchcase(key, pattern) for pattern in self._wildcards) and not any(
            fnmatchcase(key, pattern) for pattern in (self.when.key, *self.but.split())
        )

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.keys.split())

    @cached_property
    def _wildcards(self) -> tuple[str, ...]:
        return tuple(name for name in self.keys.split() if "*" in name)

    @property
    def explanation(self) -> tuple[str, str | None]:
        """The reason and what to set instead."""
        return self.reason or self.when.reason, self.instead or self.when.instead
