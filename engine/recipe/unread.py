"""Find values that a person set and that have no effect, with the reason and an alternative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.recipe.compose import effective
from engine.recipe.frozen import in_file
from engine.recipe.keys import flatten
from engine.recipe.recipe import Origin, Recipe, defaults_of
from engine.recipe.unread_rules import GRPO_RULES, NEVER_READ, SFT_RULES, Rule
from engine.runs.kinds import ByKind


@dataclass(frozen=True)
class Unread:
    """A value without effect. ``instead`` is what a person may set; None where nothing does it."""

    key: str
    value: Any
    origin: Origin
    reason: str
    instead: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def unread(recipe: Recipe) -> list[Unread]:
    """What a person set, other than to its default, that nothing reads in this recipe.

    A value that another one refers to by ``${...}`` is read by that. ``switched_off`` has those of
    the file that only an override silences.
    """
    silenced = {value.key for value in switched_off(recipe)}
    return [value for value in _without_effect(recipe) if value.key not in silenced]


def switched_off(recipe: Recipe) -> list[Unread]:
    """Values of the file that have their effect there, and that an override switched off.

    A file is written for more than one run: ``judge.provider=offline`` on the command line makes
    no mistake of the file's ``judge.model``.
    """
    before = in_file(recipe)
    if not before:
        return []
    as_written = {value.key for value in _without_effect(_with(recipe, before))}
    return [
        value
        for value in _without_effect(recipe)
        if value.origin == "file" and value.key not in as_written
    ]


def _with(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    origins: dict[str, Origin] = dict.fromkeys(values, "file")
    return replace(
        recipe,
        values={**recipe.values, **values},
        origins={**recipe.origins, **origins},
    )


def _without_effect(recipe: Recipe) -> list[Unread]:
    whole, defaults = effective(recipe, Path()), _defaults(recipe)
    rules = _RULES[recipe.kind]
    return [
        Unread(key, recipe.get(key), recipe.origins[key], rule.reason, rule.instead)
        for key in recipe.values
        if recipe.is_chosen(key)
        and key not in recipe.referenced
        and (key not in defaults or recipe.get(key) != defaults[key])
        and (rule := _rule(rules, key, whole)) is not None
    ]


def read_keys(recipe: Recipe) -> list[str]:
    """The keys of a recipe that something reads, its defaults included."""
    whole = effective(recipe, Path())
    rules = _RULES[recipe.kind]
    return [
        key for key in recipe.values if key in recipe.referenced or _rule(rules, key, whole) is None
    ]


def is_never_read(key: str) -> bool:
    """Whether a key has no effect in any GRPO recipe, whatever its value."""
    return any(rule.pattern.fullmatch(key) for rule in NEVER_READ)


_RULES = ByKind("unused values", grpo=GRPO_RULES, sft=SFT_RULES)


def _rule(rules: tuple[Rule, ...], key: str, recipe: Recipe) -> Rule | None:
    matching = (rule for rule in rules if rule.pattern.fullmatch(key))
    return next((rule for rule in matching if rule.applies(recipe)), None)


def _defaults(recipe: Recipe) -> dict[str, Any]:
    return dict(flatten(defaults_of(recipe.kind)))
