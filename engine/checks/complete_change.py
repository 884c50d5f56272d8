"""Complete a change with the dependent values it needs, so that the whole config is valid.

A config is valid if the preflight checks of ``RELATIONS`` pass. A change is tried, the checks run,
and the values that they complain about are adjusted until no check complains. Wanted values are
never adjusted; if nothing else can be adjusted, the result is a refusal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import yaml

from engine.base.errors import UsageError
from engine.checks import config, limits
from engine.checks.batch_and_steps import (
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
from engine.checks.batch_and_steps import (
    overrides as size_overrides,
)
from engine.checks.check import Check, Subject
from engine.config.compose import effective
from engine.config.keys import ALIASES, is_open
from engine.config.load import ENVIRONMENT_KEYS, Config
from engine.config.steps import step_plan
from engine.run.finding import Change
from engine.run.host.programs import own_module

_PROGRAM = "grubrics-tui"
_PART = re.compile(r"; |, then ")
_PLACEHOLDER = re.compile(r"<.*|[A-Z][A-Z:_]+")
"""A value or word that a person has to choose, such as ``FOLDER``."""
_COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{_PROGRAM} |\S*python\S* (?:-P )?-m engine\.).+")


@dataclass(frozen=True)
class CheckFix:
    """``overrides`` change the config; ``command`` is one of this project and mends the rest."""

    overrides: tuple[str, ...] = ()
    command: str = ""

    @property
    def queues(self) -> bool:
        """Whether it only queues the launch itself."""
        return self.command.startswith(f"{_PROGRAM} launch ") and "--queue" in self.command

    @property
    def prunes(self) -> bool:
        """Whether it asks which checkpoints to free."""
        return self.command.startswith(f"{_PROGRAM} prune")

    def variables(self) -> dict[str, str]:
        """The environment variables that precede the command."""
        assigned = (word.partition("=") for word in self._words[: self._start])
        return {name: value for name, _, value in assigned}

    def argv(self) -> tuple[str, ...]:
        """The command with this Python."""
        program, *arguments = self._words[self._start :]
        if program == _PROGRAM:
            return own_module("grubrics_tui", *arguments)
        module, *options = arguments[arguments.index("-m") + 1 :]
        return own_module(module, *options)

    @property
    def _words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def _start(self) -> int:
        return next(index for index, word in enumerate(self._words) if "=" not in word)


def parse_fix(text: str | None, config: Config) -> CheckFix | None:
    """Return what of a fix can be applied; None if only a person can.

    Of alternatives (``a=1, or b=2``) the first that can be applied counts.
    """
    overrides: list[str] = []
    command = ""
    for part in _PART.split(text or ""):
        for alternative in part.split(", or "):
            found = _find_command(alternative)
            # The overrides of a command belong to it.
            changes = _find_overrides(alternative.removesuffix(found), config)
            if changes or found:
                overrides += changes
                command = command or found
                break
    return CheckFix(tuple(overrides), command) if overrides or command else None


def _find_overrides(text: str, config: Config) -> list[str]:
    """The words ``key=value``; none if one of them cannot be applied as it is."""
    words = [word for word in text.split() if "=" in word]
    return words if all(_is_override(word, config) for word in words) else []


def _is_override(word: str, config: Config) -> bool:
    key, _, value = word.partition("=")
    is_known = key in config.values or key in ALIASES or is_open(key, config.values)
    return is_known and not _PLACEHOLDER.fullmatch(value) and value.count('"') % 2 == 0


def _find_command(text: str) -> str:
    """The command of this project in the text; empty if there is none, or if a word is missing."""
    match = _COMMAND.search(text)
    if match is None or any(map(_PLACEHOLDER.fullmatch, shlex.split(match[0]))):
        return ""
    return match[0]


_ROUNDS = 8
"""An adjustment may need another one (batch, mini batch, micro batch), in far fewer rounds."""
_MAX_FACTOR = 4
"""How far a size may be adjusted."""
_MOST_STARTS = 20_000
"""Sizes that are tried before a refusal; about half a second."""
_NAMES = {key: name for name, key in KEYS.items()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no valid config has the wanted values."""

    reason: str


Repair = Callable[[Config, Check, frozenset[str]], Iterator[tuple[str, str]]]
"""Takes a config, a failed check and the fixed keys; yields overrides and their reasons."""


def complete(config: Config, wanted: Sequence[Change]) -> tuple[Change, ...] | Refusal:
    """Return ``wanted``, then the dependent changes, each with its reason in ``why``.

    Changes that are not of kind ``config`` are kept as they are. Nothing is written.
    """
    chosen = {
        ALIASES.get(change.key, change.key): _override(change)
        for change in wanted
        if change.kind == "config"
    }
    adjusted: dict[str, tuple[str, str]] = {}
    # A warning that the config already has need not be repaired.
    subject = _subject(config)
    before = {name: check(subject).status for name, (check, _) in RELATIONS.items()}
    for _ in range(_ROUNDS):
        try:
            dependent = [override for override, _ in adjusted.values()]
            changed = config.with_overrides([*chosen.values(), *dependent])
        except UsageError as error:
            return Refusal(str(error))
        if reason := _fixed_by_environment(changed, chosen):
            return Refusal(reason)
        complaint = next(_complaints(changed, before), None)
        if complaint is None:
            return _changes(config, changed, wanted, adjusted)
        check, repair = complaint
        repairs = {
            override.partition("=")[0]: (override, why)
            for override, why in repair(changed, check, frozenset(chosen))
        }
        if all(adjusted.get(key) == change for key, change in repairs.items()):
            break
        adjusted |= repairs
    return Refusal(f"no valid config has {' '.join(chosen.values())}: {check.message}")


def as_overrides(changes: Sequence[Change]) -> tuple[str, ...]:
    """Return ``key=value`` of every config change, as ``launch`` and ``load_config`` take them."""
    return tuple(_override(change) for change in changes if change.kind == "config")


def _fixed_by_environment(changed: Config, chosen: Mapping[str, str]) -> str | None:
    """Name a chosen key that a variable sets: the environment takes precedence over overrides."""
    for key in chosen:
        if changed.origins.get(key) == "environment":
            names = [name for name, target in ENVIRONMENT_KEYS.items() if target == key]
            return f"{key} is set by the environment ({' or '.join(names)}), which takes precedence"
    return None


def _subject(config: Config) -> Subject:
    return Subject(effective(config, Path("attempt_1")), os.environ, Path("runs"))


def _complaints(config: Config, before: Mapping[str, str]) -> Iterator[tuple[Check, Repair]]:
    subject = _subject(config)
    for name, (check, repair) in RELATIONS.items():
        result = check(subject)
        is_new_warning = result.status == "warn" and before[name] == "ok" and name == BATCH
        if result.status == "fail" or is_new_warning:
            yield result, repair


def _own_fix(config: Config, check: Check, fixed: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the overrides in the fix of the check, without those of fixed keys."""
    fix = parse_fix(check.fix, config)
    for override in fix.overrides if fix else ():
        if override.partition("=")[0] not in fixed:
            yield override, check.message


def _more_steps(config: Config, check: Check, fixed: frozenset[str]) -> Iterator[tuple[str, str]]:
    """More epochs; fewer steps if the epochs are fixed; a smaller batch for few rows."""
    fixes = list(_own_fix(config, check, fixed))
    plan = step_plan(config)
    if fixes or plan is None or plan.rows < plan.batch:
        yield from fixes
    elif "trainer.total_training_steps" not in fixed:
        yield f"trainer.total_training_steps={plan.reachable}", check.message


def _fitting_sizes(
    config: Config, check: Check, fixed: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """The nearest valid batch sizes with the fixed keys."""
    sizes = batch_sizes(_subject(config).config)
    for override in removals(config):
        yield override, "the key is deprecated"
    names = {name for key, name in _NAMES.items() if key in fixed}
    for start in islice(_starts(sizes, names), _MOST_STARTS):
        valid = repaired(start)
        if all(getattr(valid, name) == getattr(sizes, name) for name in names):
            for override in size_overrides(sizes, valid):
                yield override, _WHY[_NAMES[override.partition("=")[0]]]
            return


def _starts(sizes: BatchSizes, fixed: Set[str]) -> Iterator[BatchSizes]:
    """Yield sizes by distance: the mini batch changes first, then the batch, then the rollouts."""
    for n in _near(sizes.n, "n" in fixed):
        for batch in _near(sizes.batch, "batch" in fixed):
            divisors = [number for number in range(1, batch + 1) if batch % number == 0]
            minis = [sizes.mini] if "mini" in fixed else divisors
            for mini in sorted(minis, key=lambda other: (abs(other - sizes.mini), other)):
                yield replace(sizes, n=n, batch=batch, mini=mini)


def _near(value: int, is_fixed: bool) -> list[int]:
    """Return numbers by their distance from ``value``, the smaller before the larger."""
    candidates = [value] if is_fixed else range(1, max(8, value * _MAX_FACTOR) + 1)
    return sorted(candidates, key=lambda other: (abs(other - value), other))


def _changes(
    config: Config,
    changed: Config,
    wanted: Sequence[Change],
    adjusted: Mapping[str, tuple[str, str]],
) -> tuple[Change, ...]:
    """Return the wanted changes and those dependent ones that differ from the former values."""
    known = [
        replace(change, before=config.get(change.key)) if change.kind == "config" else change
        for change in wanted
    ]
    dependent = [
        Change("config", key, changed.get(key), config.get(key), why)
        for key, (_, why) in adjusted.items()
        if changed.get(key) != config.get(key)
    ]
    return (*known, *dependent)


def _override(change: Change) -> str:
    """Return ``key=value``; a text that YAML would read as a number or flag is quoted."""
    value = change.after
    is_plain = isinstance(value, str) and yaml.safe_load(value) == value
    return f"{change.key}={value if is_plain else json.dumps(value)}"


_WHY = {
    "batch": "a step must hold whole mini batches on every GPU",
    "mini": "a mini batch must divide the batch of a step",
    "micro": "a micro batch must divide the rollouts of a mini batch",
    "n": "a group needs two rollouts, and all rollouts together must spread over the GPUs",
    "log_prob": "a micro batch must divide the rollouts of a step",
    "ref_log_prob": "a micro batch must divide the rollouts of a step",
    "sequence_parallel": "it must divide the number of GPUs",
    "rollout_parallel": "it must divide the number of GPUs",
}

RELATIONS: Mapping[str, tuple[Callable[[Subject], Check], Repair]] = {
    limits.ID: (limits.check, _own_fix),
    BATCH: (check_batch, _fitting_sizes),
    STEPS: (check_steps, _more_steps),
    config.ID: (config.check, _own_fix),
}
"""Checks that a change of values can break and another change can repair."""
