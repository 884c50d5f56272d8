"""Sampling values of the training rollouts as functions of the step: temperature and length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.base.counts import count_of
from engine.base.errors import UsageError
from engine.recipe.compose import LENGTH_SCHEDULE, OWN_LOOPS, ROLLOUT, TEMPERATURE_SCHEDULE
from engine.recipe.recipe import Recipe

_MODE = "trainer.v1.trainer_mode"
_SKIP = "skip.rollout_tq.enable"
_LONGEST = "data.max_response_length"

Get = Callable[[str], Any]
"""Returns the value of a config by its dotted key."""


@dataclass(frozen=True)
class Quantity:
    """What a schedule changes: its name in texts, and the section that sets the schedule."""

    name: str
    section: str
    whole: bool
    """Whether values are rounded to whole numbers."""


TEMPERATURE = Quantity("temperature", TEMPERATURE_SCHEDULE, whole=False)
LENGTH = Quantity("response length", LENGTH_SCHEDULE, whole=True)
"""The tokens of the longest response."""


@dataclass(frozen=True)
class Schedule:
    """A value that changes linearly with the step and then stays.

    value(step) = initial + step / steps * (final - initial)  for step < steps, else final
    """

    initial: float
    final: float
    steps: int
    of: Quantity = TEMPERATURE

    def at(self, step: int) -> float:
        """The value of a training step; the first one is step 1."""
        if step >= self.steps:
            return self.final
        value = self.initial + step / self.steps * (self.final - self.initial)
        return float(round(value)) if self.of.whole else value

    def text(self, step: int) -> str:
        """The value of a step, with four digits."""
        return f"{self.at(step):.0f}" if self.of.whole else f"{self.at(step):.4g}"

    def __str__(self) -> str:
        return f"{self.text(0)} -> {self.text(self.steps)} over {count_of(self.steps, 'step')}"

    def describe(self, last: int | None) -> str:
        """The schedule in one line; where a run of ``last`` steps ends before it, also how far."""
        if not last or last >= self.steps:
            return str(self)
        return f"{self} (at the end of this run: {self.text(last)})"


def find_schedule(get: Get, of: Quantity) -> Schedule | None:
    """The schedule that a config sets; None if it sets none."""
    initial, final, steps = (get(f"{of.section}.{name}") for name in ("initial", "final", "steps"))
    return Schedule(float(initial), float(final), int(steps), of) if steps else None


def schedules(get: Get) -> list[Schedule]:
    """All schedules that a config sets."""
    found = (find_schedule(get, quantity) for quantity in (TEMPERATURE, LENGTH))
    return [schedule for schedule in found if schedule is not None]


def rollout_temperature(recipe: Recipe) -> float:
    """The temperature of the rollouts; of a schedule, its final one."""
    schedule = find_schedule(recipe.get, TEMPERATURE)
    return schedule.final if schedule else float(recipe.get(f"{ROLLOUT}.temperature", 1.0))


@dataclass(frozen=True)
class Conflict:
    """Why a config cannot follow its schedule, and the override that helps."""

    message: str
    fix: str


def find_conflicts(recipe: Recipe) -> Iterator[Conflict]:
    """The values with which a run would not follow its schedules."""
    mode = recipe.get(_MODE)
    if find_schedule(recipe.get, TEMPERATURE) is not None and mode != "sync":
        message = f"{_MODE}={mode} also trains on rollouts of earlier steps, which have"
        yield Conflict(f"{TEMPERATURE.section}: {message} other temperatures", f"{_MODE}=sync")
    if (length := find_schedule(recipe.get, LENGTH)) is not None:
        most, longest = int(max(length.initial, length.final)), recipe.get(_LONGEST)
        if most > longest:
            message = f"{LENGTH_SCHEDULE} goes to {most} tokens, above {_LONGEST}={longest}"
            yield Conflict(message, f"{_LONGEST}={most}")
    loops = recipe.is_chosen(OWN_LOOPS) and recipe.get(OWN_LOOPS)
    for section in (schedule.of.section for schedule in schedules(recipe.get)):
        if recipe.get(_SKIP):
            message = f"{section}: {_SKIP}=true trains on stored rollouts, which do not follow it"
            yield Conflict(message, f"{_SKIP}=false")
        if loops:
            message = f"{section}: the agent loops of {OWN_LOOPS}={loops} do not follow it"
            yield Conflict(message, f"{section}.steps=null")


def require_followed(recipe: Recipe) -> None:
    """Raise UsageError if the run would not follow a schedule."""
    for conflict in find_conflicts(recipe):
        raise UsageError(f"{recipe.path}: {conflict.message} [fix: {conflict.fix}]")
