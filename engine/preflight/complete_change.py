"""Complete a change with the dependent values it needs, so that the whole config is valid.

Validity is what the checklist says it is: a change is tried, the relations of the checklist are
asked, what they complain about is moved, and so on until none complains. Values that were asked
for are never moved; where nothing else can give way there is no valid whole, and the answer is a
refusal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import yaml

from engine.base.errors import UsageError
from engine.findings.finding import Change
from engine.preflight import config, limits
from engine.preflight.batch_and_steps import (
    BATCH,
    KEYS,
    STEPS,
    BatchSizes,
    batch_sizes,
    check_batch,
    check_steps,
    removals,
    repaired,
)
from engine.preflight.batch_and_steps import (
    overrides as size_overrides,
)
from engine.preflight.check import Check, Subject
from engine.recipe.compose import effective
from engine.recipe.recipe import ALIASES, ENVIRONMENT_KEYS, Recipe, load_recipe
from engine.recipe.steps import step_plan

_ROUNDS = 8
"""Moves follow from moves (a batch moves a mini batch moves a micro batch) in far fewer rounds."""
_WIDEST = 4
"""How far a size may move away from what it was, as a factor."""
_MOST_STARTS = 20_000
"""Sizes that are tried before there is said to be no whole; about half a second."""
_NAMES = {key: name for name, key in KEYS.items()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no valid config has the wanted values."""

    reason: str


Repair = Callable[[Recipe, Check, frozenset[str]], Iterator[tuple[str, str]]]
"""Recipe, complaint and the keys that must stay -> ``(key=value, why)`` of what has to move."""


def complete(recipe: Recipe, wanted: Sequence[Change]) -> tuple[Change, ...] | Refusal:
    """``wanted`` first, then what has to move with it, each with the reason in ``why``.

    Changes that are not of kind ``config`` are passed on as they are. Nothing is written.
    """
    asked = [one for one in wanted if one.kind == "config"]
    chosen = {ALIASES.get(one.key, one.key): _text(one) for one in asked}
    moved: dict[str, tuple[str, str]] = {}
    before = _standing(recipe)
    for _ in range(_ROUNDS):
        try:
            changed = with_overrides(
                recipe, [*chosen.values(), *(text for text, _ in moved.values())]
            )
        except UsageError as error:
            return Refusal(str(error))
        if void := _void(changed, chosen):
            return Refusal(void)
        complaint = next(_complaints(changed, before), None)
        if complaint is None:
            return _finished(recipe, changed, wanted, moved)
        check, repair = complaint
        moves = dict(_by_key(repair(changed, check, frozenset(chosen))))
        if not moves or all(moved.get(key) == move for key, move in moves.items()):
            return Refusal(_dead_end(check, chosen))
        moved |= moves
    return Refusal(_dead_end(check, chosen))


def as_overrides(changes: Sequence[Change]) -> tuple[str, ...]:
    """``key=value`` of every config change, as ``launch`` and ``load_recipe`` take them."""
    return tuple(_text(change) for change in changes if change.kind == "config")


def with_overrides(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """``recipe`` with more overrides; what its environment set stays set."""
    given = [*recipe.overrides, *overrides]
    return replace(load_recipe(str(recipe.path), given, _environment(recipe)), name=recipe.name)


def _environment(recipe: Recipe) -> dict[str, str]:
    """The variables that gave a recipe its values of origin ``environment``."""
    found = {}
    for name, key in ENVIRONMENT_KEYS.items():
        if recipe.origins.get(key) == "environment":
            value = recipe.get(key)
            found[name] = str(int(value)) if isinstance(value, bool) else str(value)
    return found


def _void(changed: Recipe, chosen: Mapping[str, str]) -> str | None:
    """A variable of the environment wins over any override."""
    for key in chosen:
        if changed.origins.get(key) == "environment":
            names = [name for name, of in ENVIRONMENT_KEYS.items() if of == key]
            return f"{key} is set by the environment ({' or '.join(names)}), which takes precedence"
    return None


def _subject(recipe: Recipe) -> Subject:
    return Subject(effective(recipe, Path("attempt_1")), os.environ, Path("runs"))


def _standing(recipe: Recipe) -> Mapping[str, str]:
    """What each relation says of the recipe as it is: a warning that stands is not ours to mend."""
    return {name: check(_subject(recipe)).status for name, (check, _) in RELATIONS.items()}


def _complaints(recipe: Recipe, before: Mapping[str, str]) -> Iterator[tuple[Check, Repair]]:
    subject = _subject(recipe)
    for name, (check, repair) in RELATIONS.items():
        found = check(subject)
        is_new_warning = found.status == "warn" and before[name] == "ok" and name == BATCH
        if found.status == "fail" or is_new_warning:
            yield found, repair


def _own_fix(recipe: Recipe, check: Check, kept: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The fix of the check itself, where it is overrides and leaves what was asked for alone."""
    for word in (check.fix or "").replace(";", " ").split():
        key, separator, value = word.partition("=")
        if separator and not value.startswith("<") and key in recipe.values and key not in kept:
            yield word, check.message


def _more_steps(recipe: Recipe, check: Check, kept: frozenset[str]) -> Iterator[tuple[str, str]]:
    """More epochs; fewer steps where the epochs were asked for; a smaller batch for few rows."""
    fixes = list(_own_fix(recipe, check, kept))
    plan = step_plan(recipe)
    if fixes or plan is None or plan.rows < plan.batch:
        yield from fixes
    elif "trainer.total_training_steps" not in kept:
        yield f"trainer.total_training_steps={plan.reachable}", check.message


def _fitting_sizes(recipe: Recipe, check: Check, kept: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The nearest batch sizes that are whole and keep what was asked for."""
    sizes = batch_sizes(_subject(recipe).recipe)
    found = _nearest(sizes, {name for key, name in _NAMES.items() if key in kept})
    for text in removals(recipe):
        yield text, "the key is deprecated"
    if found is None:
        return
    for text in size_overrides(sizes, found):
        yield text, _WHY[_NAMES[text.partition("=")[0]]]


def _nearest(sizes: BatchSizes, fixed: Set[str]) -> BatchSizes | None:
    """The sizes that ``repaired`` makes of the nearest start and that leave ``fixed`` alone."""
    for start in islice(_starts(sizes, fixed), _MOST_STARTS):
        found = repaired(start)
        if all(getattr(found, name) == getattr(sizes, name) for name in fixed):
            return found
    return None


def _starts(sizes: BatchSizes, fixed: Set[str]) -> Iterator[BatchSizes]:
    """Ever farther away; the mini batch moves first, then the batch, then the rollouts."""
    for n in _near(sizes.n, "n" in fixed):
        for size in _near(sizes.batch, "batch" in fixed):
            for mini in _near_minis(sizes.mini, size, "mini" in fixed):
                yield replace(sizes, n=n, batch=size, mini=mini)


def _near(value: int, fixed: bool) -> list[int]:
    """``value``, then what is ever farther from it, smaller before larger."""
    candidates = [value] if fixed else range(1, max(8, value * _WIDEST) + 1)
    return sorted(candidates, key=lambda other: (abs(other - value), other))


def _near_minis(mini: int, size: int, fixed: bool) -> list[int]:
    divisors = [number for number in range(1, size + 1) if size % number == 0]
    return sorted([mini] if fixed else divisors, key=lambda other: (abs(other - mini), other))


def _by_key(moves: Iterator[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    for text, why in moves:
        yield text.partition("=")[0], (text, why)


def _finished(
    recipe: Recipe, changed: Recipe, wanted: Sequence[Change], moved: Mapping[str, tuple[str, str]]
) -> tuple[Change, ...]:
    """The values as they ended up; what moved back to where it was is no change."""
    known = [
        replace(one, before=recipe.get(one.key)) if one.kind == "config" else one for one in wanted
    ]
    follow = [
        Change("config", key, changed.get(key), recipe.get(key), why)
        for key, (_, why) in moved.items()
        if changed.get(key) != recipe.get(key)
    ]
    return (*known, *follow)


def _dead_end(check: Check, chosen: Mapping[str, str]) -> str:
    return f"no valid config has {' '.join(chosen.values())}: {check.message}"


def _text(change: Change) -> str:
    """Read back as the same value: a text that looks like a number or a flag is quoted."""
    value = change.after
    plain = isinstance(value, str) and yaml.safe_load(value) == value
    return f"{change.key}={value if plain else json.dumps(value)}"


_WHY = {
    "batch": "a step must hold whole mini batches on every GPU",
    "mini": "a mini batch must divide the batch of a step",
    "micro": "a micro batch must divide the rollouts of a mini batch on each GPU",
    "n": "a group needs two rollouts, and all rollouts together must spread over the GPUs",
    "log_prob": "a micro batch must divide the rollouts of a step on each GPU",
    "ref_log_prob": "a micro batch must divide the rollouts of a step on each GPU",
    "sequence_parallel": "it must divide the number of GPUs",
    "rollout_parallel": "it must divide the number of GPUs",
}

RELATIONS: Mapping[str, tuple[Callable[[Subject], Check], Repair]] = {
    limits.ID: (limits.check, _own_fix),
    BATCH: (check_batch, _fitting_sizes),
    STEPS: (check_steps, _more_steps),
    config.ID: (config.check, _own_fix),
}
"""Checks that a change of values can break and another change of values can mend."""
