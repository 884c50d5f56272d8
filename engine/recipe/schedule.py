"""The temperature of the rollouts as a function of the training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.base.counts import count_of
from engine.base.errors import UsageError
from engine.recipe.compose import OWN_LOOPS, ROLLOUT, SCHEDULE
from engine.recipe.recipe import Recipe

_MODE = "trainer.v1.trainer_mode"
_SKIP = "skip.rollout_tq.enable"


@dataclass(frozen=True)
class Schedule:
    """A value that changes linearly with the step and then stays.

    value(step) = initial + step / steps * (final - initial)  for step < steps, else final
    """

    initial: float
    final: float
    steps: int

    def at(self, step: int) -> float:
        """The value of a training step; the first one is step 1."""
        if step >= self.steps:
            return self.final
        return self.initial + step / self.steps * (self.final - self.initial)

    def __str__(self) -> str:
        return f"{self.initial:g} -> {self.final:g} over {count_of(self.steps, 'step')}"

    def describe(self, last: int | None) -> str:
        """The schedule in one line; where a run of ``last`` steps ends before it, also how far."""
        if not last or last >= self.steps:
            return str(self)
        return f"{self} (at the end of this run: {self.at(last):.4g})"


def temperature_schedule(get: Callable[[str], Any]) -> Schedule | None:
    """The schedule that a config sets, whose values ``get`` returns by dotted key."""
    steps = get(f"{SCHEDULE}.steps")
    if not steps:
        return None
    return Schedule(float(get(f"{SCHEDULE}.initial")), float(get(f"{SCHEDULE}.final")), int(steps))


def rollout_temperature(recipe: Recipe) -> float:
    """The temperature of the rollouts; of a schedule, its final one."""
    schedule = temperature_schedule(recipe.get)
    return schedule.final if schedule else float(recipe.get(f"{ROLLOUT}.temperature", 1.0))


@dataclass(frozen=True)
class Conflict:
    """Why a config cannot follow its schedule, and the override that helps."""

    message: str
    fix: str


def find_conflicts(recipe: Recipe) -> Iterator[Conflict]:
    """The values with which a step would train at another temperature than it generated with."""
    if temperature_schedule(recipe.get) is None:
        return
    if (mode := recipe.get(_MODE)) != "sync":
        message = f"{_MODE}={mode} also trains on rollouts of earlier steps, which have"
        yield Conflict(f"{SCHEDULE}: {message} other temperatures", f"{_MODE}=sync")
    if recipe.get(_SKIP):
        message = f"{_SKIP}=true trains on stored rollouts, whose temperature is not known"
        yield Conflict(f"{SCHEDULE}: {message}", f"{_SKIP}=false")
    if recipe.is_chosen(OWN_LOOPS) and (loops := recipe.get(OWN_LOOPS)):
        message = f"the agent loops of {OWN_LOOPS}={loops} do not follow it"
        yield Conflict(f"{SCHEDULE}: {message}", f"{SCHEDULE}.steps=null")


def require_followed(recipe: Recipe) -> None:
    """Raise UsageError if the config cannot follow its schedule."""
    for conflict in find_conflicts(recipe):
        raise UsageError(f"{recipe.path}: {conflict.message} [fix: {conflict.fix}]")
