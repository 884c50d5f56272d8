"""A curriculum: phases of a run with their own shares of verifiable and open-ended rows.

The weights and the optimizer pass from phase to phase, because all phases are steps of one
training. ``grubrics.curriculum`` holds the phases as a text, ``data.train_files`` names the file of
verifiable rows and then that of open-ended ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import Any

from engine.base.quantities import format_count

KEY = "grubrics.curriculum"
STEPS = "trainer.total_training_steps"
FORM = "VERIFIABLE:OPEN:STEPS[:LR_SCALE]"
EXAMPLE = "0.8:0.2:0.4 0.5:0.5:0.3 0.2:0.8:0.3"

_TOLERANCE = 1e-3
"""How far a sum of shares may be from 1, for shares like 0.333."""

_SMALLEST = 1e-9
"""Of a share of the steps, and of a learning rate: with less, no run has a step of the phase."""
_LARGEST_SCALE = 1e3


@dataclass(frozen=True)
class Phase:
    """A part of a curriculum. ``verifiable`` and ``open`` are shares of the rows of each step."""

    verifiable: float
    open: float
    steps: float
    """Share of the steps of the run."""
    lr_scale: float = 1.0
    """Factor of the learning rate."""

    def describe(self) -> str:
        """``0.8 verifiable, 0.2 open-ended, learning rate x 0.5``."""
        scale = "" if self.lr_scale == 1 else f", learning rate x {self.lr_scale:g}"
        return f"{self.verifiable:.4g} verifiable, {self.open:.4g} open-ended{scale}"


@dataclass(frozen=True)
class Curriculum:
    """Phases over the steps of a run."""

    phases: tuple[Phase, ...]
    total: int
    """Steps of the run."""

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The last step of each phase: the sum of the shares up to it, rounded to a step."""
        whole = sum(phase.steps for phase in self.phases)
        sums = accumulate(phase.steps for phase in self.phases)
        return tuple(int(self.total * part / whole + 0.5 + 1e-9) for part in sums)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of steps of each phase."""
        return tuple(end - start for start, end in zip((0, *self.ends), self.ends, strict=False))

    @property
    def fewest_steps(self) -> int:
        """The steps of the shortest run in which the shortest phase certainly has a step."""
        return ceil(1 / min(phase.steps for phase in self.phases))

    def phase(self, step: int) -> Phase:
        """The phase of a training step, which counts from 1."""
        return self.phases[phase_of(self.ends, step) - 1]

    def describe(self) -> list[str]:
        """A line per phase: ``phase 1: steps 1 to 4, 0.8 verifiable, 0.2 open-ended``."""
        starts = (1 + end for end in (0, *self.ends))
        return [
            f"phase {number}: steps {start} to {end}, {phase.describe()}"
            for number, (phase, start, end) in enumerate(
                zip(self.phases, starts, self.ends, strict=False), start=1
            )
        ]


def phase_of(ends: Sequence[int], step: int) -> int:
    """The phase of a step, from 1, by the last steps of the phases; after the last, the last."""
    return min(bisect_left(ends, step), len(ends) - 1) + 1


def parse_phases(text: str) -> tuple[Phase, ...]:
    """The phases of ``0.8:0.2:0.4 0.5:0.5:0.6:0.1``. ValueError says in a line what is wrong."""
    phases = tuple(map(_parse_phase, text.replace(",", " ").split()))
    if not phases:
        raise ValueError(f"has no phase; write {FORM} for each, e.g. {EXAMPLE}")
    if not _is_one(total := sum(phase.steps for phase in phases)):
        raise ValueError(f"the shares of the steps sum to {total:.4g}, not to 1")
    return phases


def _parse_phase(text: str) -> Phase:
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 4) or not all(0 <= number < float("inf") for number in numbers):
        raise ValueError(f"phase '{text}' must be {FORM}, e.g. 0.8:0.2:0.4, none below 0")
    phase = Phase(*numbers)
    if not _is_one(rows := phase.verifiable + phase.open):
        raise ValueError(f"the shares of phase '{text}' sum to {rows:.4g}, not to 1")
    if min(phase.steps, phase.lr_scale) < _SMALLEST:
        name = "steps" if phase.steps < _SMALLEST else "learning rate"
        raise ValueError(f"phase '{text}' has no {name}: its share must be at least {_SMALLEST:g}")
    if phase.lr_scale > _LARGEST_SCALE:
        raise ValueError(f"phase '{text}': a learning rate is scaled by at most {_LARGEST_SCALE:g}")
    return phase


def _is_one(number: float) -> bool:
    return abs(number - 1) <= _TOLERANCE + 1e-9


def find_curriculum(get: Callable[[str], Any]) -> Curriculum | None:
    """The curriculum that a config sets; None if it sets none, or no number of steps."""
    text, total = get(KEY), get(STEPS)
    return Curriculum(parse_phases(text), int(total)) if text and total else None


def find_empty_phase(curriculum: Curriculum) -> str | None:
    """What is wrong if a phase has no step, in one line."""
    for number, length in enumerate(curriculum.lengths, start=1):
        if not length:
            share = curriculum.phases[number - 1].steps
            steps = format_count(curriculum.total, "step")
            return f"phase {number} has no step: it is {share:g} of {steps}"
    return None
