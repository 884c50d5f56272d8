"""What a run changes with the step: temperature and length of the rollouts, and the rows by phase.

``find_conflicts`` says which values keep a run from following its schedules or its curriculum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.config import curriculum
from engine.config.compose import (
    ACTOR,
    FILTER,
    LENGTH_SCHEDULE,
    OWN_LOOPS,
    ROLLOUT,
    SAMPLER,
    TEMPERATURE_SCHEDULE,
)
from engine.config.load import Config

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
        return f"{self.text(0)} -> {self.text(self.steps)} over {format_count(self.steps, 'step')}"

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


def rollout_temperature(config: Config) -> float:
    """The temperature of the rollouts; of a schedule, its final one."""
    schedule = find_schedule(config.get, TEMPERATURE)
    return schedule.final if schedule else float(config.get(f"{ROLLOUT}.temperature", 1.0))


@dataclass(frozen=True)
class Conflict:
    """Why a config cannot follow its schedule, and the override that helps."""

    message: str
    fix: str


def find_conflicts(config: Config) -> Iterator[Conflict]:
    """The values with which a run would not follow its schedules or its curriculum."""
    yield from _curriculum_conflicts(config)
    mode = config.get(_MODE)
    if find_schedule(config.get, TEMPERATURE) is not None and mode != "sync":
        message = f"{_MODE}={mode} also trains on rollouts of earlier steps, which have"
        yield Conflict(f"{TEMPERATURE.section}: {message} other temperatures", f"{_MODE}=sync")
    if (length := find_schedule(config.get, LENGTH)) is not None:
        most, longest = int(max(length.initial, length.final)), config.get(_LONGEST)
        if most > longest:
            message = f"{LENGTH_SCHEDULE} goes to {most} tokens, above {_LONGEST}={longest}"
            yield Conflict(message, f"{_LONGEST}={most}")
    loops = config.is_chosen(OWN_LOOPS) and config.get(OWN_LOOPS)
    for section in (schedule.of.section for schedule in schedules(config.get)):
        if config.get(_SKIP):
            message = f"{section}: {_SKIP}=true trains on stored rollouts, which do not follow it"
            yield Conflict(message, f"{_SKIP}=false")
        if loops:
            message = f"{section}: the agent loops of {OWN_LOOPS}={loops} do not follow it"
            yield Conflict(message, f"{section}.steps=null")


def _curriculum_conflicts(config: Config) -> Iterator[Conflict]:
    """A phase is a number of steps of one batch each, of the rows of two files."""
    key = curriculum.KEY
    if not config.get(key):
        return
    planned = curriculum.find_curriculum(config.get)
    if planned is None:
        yield Conflict(f"{key} divides the steps of the run", f"{curriculum.STEPS}=100")
    elif problem := curriculum.find_empty_phase(planned):
        yield Conflict(f"{key}: {problem}", f"{curriculum.STEPS}={planned.fewest_steps}")
    files = config.listed("data.train_files")
    if len(files) != 2:
        wanted = "takes a file of verifiable rows and then one of open-ended rows"
        count = format_count(len(files), "file")
        given = f"data.train_files has {count}: {', '.join(map(str, files))}"
        fix = "data.train_files=[VERIFIABLE.parquet,OPEN.parquet]"
        yield Conflict(f"{key} {wanted}; {given}", fix)
    for name, free, reason in _KEEPING_OFF_PHASES:
        if config.get(name) not in free:
            fix = f"{name}={'null' if free[0] is None else str(free[0]).lower()}"
            yield Conflict(f"{key}: with {name}={config.get(name)}, {reason}", fix)


_MORE = "a step takes more than its batch of rows, so that phases would not end with a step"
_KEEPING_OFF_PHASES: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    (_MODE, ("sync",), _MORE),
    (f"{FILTER}.enable", (False, None), _MORE),
    (f"{SAMPLER}.sync_refill_failed_groups", (False, None), _MORE),
    (_SKIP, (False, None), "the rows of a step are those of stored rollouts"),
    ("grubrics.shares", (None,), "rows have other shares"),
    ("data.custom_cls.path", (None,), "another data set decides how rows are read"),
    ("trainer.critic_warmup", (0, 1, None), "the first steps train no actor"),
    (f"{ACTOR}.strategy", ("fsdp2", "fsdp"), "the learning rate does not follow the phases"),
)
"""Key, values with which a run follows its curriculum, and why it does not with others."""


def require_followed(config: Config) -> None:
    """Raise UsageError if the run would not follow a schedule or its curriculum."""
    for conflict in find_conflicts(config):
        raise UsageError(f"{config.path}: {conflict.message} [fix: {conflict.fix}]")
