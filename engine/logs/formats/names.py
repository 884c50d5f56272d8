"""Numbers of other writers under canonical names, and the attempts their steps belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from statistics import fmean
from typing import Any

from engine.base import jsonl
from engine.run.history import metrics
from engine.run.history.train_log import Metrics, Step
from engine.run.kinds import GRPO, SFT, Kind

NUMBER = rb"[-+]?(?:\d[\d.]{0,40}(?:[eE][-+]?\d{1,3})?|nan|inf)"
"""A pattern of a printed number."""

_VALIDATIONS = (
    re.compile(r"val-(?:core|aux)/.+/reward/mean@\d+"),
    re.compile(r"val-core/.+/mean@\d+"),
    re.compile(r"val/test_score/.+"),
)
"""verl's names of what a validation scores, of which the first that is logged counts."""
_LARGEST = 1e100  # as in ``jsonl.number``
_NUMBERS = frozenset({int, float})
STEP_NAMES = (
    *("step", "global_step", "global_step/max_steps", "_step", "training_step"),
    *("trainer/global_step", "iteration", "iter", "epoch"),
)
"""What tables and JSON objects of no known trainer call the step, the likeliest first."""
_RANKS = {name: rank for rank, name in enumerate(metrics.ALIASES)}
_REWARD = {metrics.REWARD_MEAN: "mean", metrics.REWARD_MIN: "min", metrics.REWARD_MAX: "max"}


def all_bounded(values: list[Any]) -> bool:
    """Whether these JSON values are all finite numbers within the limit of ``jsonl.number``."""
    return (
        set(map(type, values)) <= _NUMBERS and -_LARGEST <= min(values) <= max(values) <= _LARGEST
    )


def bounded(value: float) -> float | None:
    """The number; None for NaN, an infinity and anything beyond ``jsonl.number``'s limit."""
    return value if -_LARGEST <= value <= _LARGEST else None


def number(value: Any) -> float | None:
    """A number or the text of one, as HF's Trainer prints them; ValueError for anything else."""
    if value is None:
        return None
    if type(value) not in (float, str, int, bytes):
        raise ValueError("not a number")
    try:
        return bounded(float(value))
    except OverflowError:
        return None


def whole_number(value: Any) -> int | None:
    """The number of a step: an integer from 0 on, or the text or float of one; None otherwise."""
    if type(value) is int:
        return value if 0 <= value < 2**53 else None
    try:
        exact = number(value)
    except ValueError:
        return None
    if exact is None or exact != int(exact) or not 0 <= exact < 2**53:
        return None
    return int(exact)


def step_of_total(value: object) -> tuple[int | None, int | None]:
    """The step and the number of steps: ``25/40`` has both, ``25`` only the first."""
    if not isinstance(value, str):
        return whole_number(value), None
    step, _, total = value.partition("/")
    return whole_number(step), whole_number(total)


@lru_cache(maxsize=4096)
def find_step_name(names: tuple[str, ...]) -> str | None:
    """The name that means the step, of a table's columns or a record's keys; None without one."""
    by_meaning = {name.lower().removeprefix("train/"): name for name in reversed(names)}
    return next((by_meaning[name] for name in STEP_NAMES if name in by_meaning), None)


def spoken_name(raw: bytes) -> str:
    """A name in words, such as ``Grad. Norm``, in the form of other metrics: ``grad_norm``."""
    words = jsonl.line(raw.decode("utf-8", errors="replace").replace(".", " ")) or ""
    return "_".join(words.lower().split())


@lru_cache(maxsize=4096)
def clean_name(raw: bytes | str) -> str:
    """The canonical name of a metric, as one line of printable text."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", errors="replace")
    return metrics.canonical(jsonl.line(text.strip()) or "")


def with_rewards(values: Metrics) -> Metrics:
    """verl's metrics with the reward and validation under canonical names."""
    return with_validation(with_scores(values))


def with_scores(values: Metrics) -> Metrics:
    """verl's score is our reward; its ``critic/rewards`` is the score less a KL penalty, if any."""
    for name, part in _REWARD.items():
        for source in (f"critic/score/{part}", f"critic/rewards/{part}"):
            if source in values:
                values.setdefault(name, values[source])
    return values


def with_validation(values: Metrics) -> Metrics:
    """verl's validation rewards are one mean over its data sources."""
    for pattern in _VALIDATIONS:
        rewards = [values[name] for name in values if pattern.fullmatch(name)]
        if rewards:
            numbers = [value for value in rewards if value is not None]
            values.setdefault(metrics.VALIDATION_REWARD, fmean(numbers) if numbers else None)
            break
    return values


_OF_REWARDS = (
    *("reward/", "critic/", "judge", "response_length/"),
    *("actor/pg_", "actor/ppo_kl", "actor/kl_", "objective/", "rollout/"),
)
"""Beginnings of names that only a run logs which learns from rewards."""


def kind_of(names: Iterable[str]) -> Kind:
    """SFT for a log with a supervised loss and nothing of rewards, else GRPO."""
    logged = set(names)
    has_rewards = any(name.startswith(_OF_REWARDS) for name in logged)
    return SFT if not has_rewards and metrics.TRAIN_LOSS in logged else GRPO


def find_setting(config: Mapping[str, Any], *paths: str) -> Any:
    """The first of the dotted ``paths`` that a nested ``config`` has; None when it has none."""
    for path in paths:
        value: Any = config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


class LoggedNames:
    """Names of any trainer's log. A run counts as one that learns from rewards once it logs one."""

    def __init__(self) -> None:
        self._is_rewarded = False
        self._keys: tuple[str, ...] = ()
        self._names: list[str] = []
        self._has_scores = False
        """Whether verl's scores or validations are among the names."""

    def metrics(self, values: Mapping[str, object]) -> Metrics:
        """Canonical names and numbers; a NaN is None. A null and what is no number are left out."""
        if (keys := tuple(values)) != self._keys:  # Most steps log what the one before did.
            self._keys, self._names = keys, self._canonical(keys)
            self._has_scores = any(key.startswith(("critic/", "val-", "val/")) for key in keys)
        numbers: Metrics = {}
        for name, value in zip(self._names, values.values(), strict=True):
            if type(value) is float:
                numbers[name] = bounded(value)
            elif value is not None:
                with suppress(ValueError):
                    numbers[name] = number(value)
        return with_rewards(numbers) if self._has_scores else numbers

    def _canonical(self, keys: Sequence[str]) -> list[str]:
        """W&B's callback puts ``train/`` before the names; a name without it means the same."""
        names = [key.removeprefix("train/") for key in keys]
        self._is_rewarded = self._is_rewarded or not metrics.REWARDS.isdisjoint(names)
        table = metrics.REWARDED if self._is_rewarded else metrics.SUPERVISED
        named = [jsonl.line(key) or "" for key in keys]
        taken: set[str] = set()
        for index in sorted(range(len(keys)), key=lambda index: _RANKS.get(names[index], -1)):
            meaning = table.get(names[index]) or clean_name(names[index])
            if meaning not in taken:  # A second key of the same meaning keeps its own name.
                named[index] = meaning
                taken.add(meaning)
        return named


class Numbering:
    """Which attempt a step belongs to, in a log that a resumed run was appended to.

    A step below the one before it begins a new attempt; steps seen before are redone.
    """

    def __init__(self) -> None:
        self._attempt = 1
        self._last = -1
        self._highest = -1
        self._highest_before = -1
        """The highest step of the attempts before this one."""

    def step(self, number: int, metrics: Metrics, time: float = 0.0) -> Step:
        if number < self._last:
            self._attempt += 1
            self._highest_before = self._highest
        self._last = number
        self._highest = max(self._highest, number)
        redone = number <= self._highest_before
        return Step(number, self._attempt, time, metrics, redone)
