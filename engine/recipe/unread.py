"""Find values that a person set and that have no effect, with the reason and an alternative."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.recipe.compose import effective
from engine.recipe.frozen import in_file
from engine.recipe.key_rules import Rule
from engine.recipe.keys import flatten
from engine.recipe.recipe import Origin, Recipe, defaults_of
from engine.recipe.unread_rules import GRPO_RULES, NEVER_READ, SFT_RULES
from engine.runs.kinds import ByKind


@dataclass(frozen=True)
class Unread:
    """A value without effect. ``instead``: the key that has the intended effect, or None."""

    key: str
    value: Any
    origin: Origin
    reason: str
    instead: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


_RULES = ByKind("unused values", grpo=GRPO_RULES, sft=SFT_RULES)


def unread(recipe: Recipe) -> list[Unread]:
    """Return the values that differ from their default and that nothing reads in this recipe.

    A value that another one refers to by ``${...}`` counts as read. Values of the file that only
    an override switches off are left out: see ``switched_off``.
    """
    silenced = {value.key for value in switched_off(recipe)}
    return [value for value in _without_effect(recipe) if value.key not in silenced]


def switched_off(recipe: Recipe) -> list[Unread]:
    """Return the values of the file that would have an effect without the overrides.

    A file is written for more than one run: with ``judge.provider=offline`` on the command line,
    the file's ``judge.model`` is not a mistake.
    """
    in_recipe_file = in_file(recipe)
    if not in_recipe_file:
        return []
    origins: dict[str, Origin] = dict.fromkeys(in_recipe_file, "file")
    without_overrides = replace(
        recipe,
        values={**recipe.values, **in_recipe_file},
        origins={**recipe.origins, **origins},
    )
    unread_anyway = {value.key for value in _without_effect(without_overrides)}
    return [
        value
        for value in _without_effect(recipe)
        if value.origin == "file" and value.key not in unread_anyway
    ]


def _without_effect(recipe: Recipe) -> list[Unread]:
    complete, rules = effective(recipe, Path()), _RULES[recipe.kind]
    defaults = dict(flatten(defaults_of(recipe.kind)))
    return [
        Unread(key, recipe.get(key), recipe.origins[key], *rule.explanation)
        for key in recipe.values
        if recipe.is_chosen(key)
        and recipe.origins[key] != "preset"
        and key not in recipe.referenced
        and (key not in defaults or recipe.get(key) != defaults[key])
        and (rule := _find_rule(rules, key, complete)) is not None
    ]


def read_keys(recipe: Recipe) -> list[str]:
    """Return the keys that something reads in this recipe, including those with defaults."""
    complete, rules = effective(recipe, Path()), _RULES[recipe.kind]
    return [
        key
        for key in recipe.values
        if key in recipe.referenced or _find_rule(rules, key, complete) is None
    ]


def unread_reasons(recipe: Recipe, keys: Iterable[str]) -> dict[str, str]:
    """Return why this recipe does not read a key, for those of ``keys`` that it does not read."""
    complete, rules = effective(recipe, Path()), _RULES[recipe.kind]
    unreferenced = [key for key in keys if key not in recipe.referenced]
    found = {key: _find_rule(rules, key, complete) for key in unreferenced}
    return {key: rule.explanation[0] for key, rule in found.items() if rule is not None}


def is_never_read(key: str) -> bool:
    """Whether a rule of ``NEVER_READ`` covers the key, with some value or with all."""
    return any(rule.covers(key) for rule in NEVER_READ)


def _find_rule(rules: tuple[Rule, ...], key: str, recipe: Recipe) -> Rule | None:
    """Return the first rule by which the ``recipe`` does not read ``key``."""
    covering = (rule for rule in rules if rule.covers(key))
    return next((rule for rule in covering if rule.when.holds(recipe)), None)
