"""What the workers of a run must know of its curriculum, passed on in the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from engine.config.curriculum import Curriculum, phase_of

VARIABLE = "GRUBRICS_CURRICULUM"
VENDOR_VARIABLE = "VERL_ENGINE_VENDOR"
VENDOR = "grubrics"
"""verl's engines have vendors; this one's is ``PhasedEngine``."""


@dataclass(frozen=True)
class Phases:
    """What a worker must know of a curriculum: last steps and learning-rate factors."""

    ends: tuple[int, ...]
    scales: tuple[float, ...]

    def scale(self, step: int) -> float:
        """The factor of the learning rate in a training step, which counts from 1."""
        return self.scales[phase_of(self.ends, step) - 1]

    def is_first(self, step: int) -> bool:
        """Whether a phase begins with this step."""
        return step == 1 or step - 1 in self.ends[:-1]


def announce(curriculum: Curriculum, env: MutableMapping[str, str]) -> None:
    """Have the workers of this process's run use ``PhasedEngine``."""
    scales = [phase.lr_scale for phase in curriculum.phases]
    env[VARIABLE] = json.dumps({"ends": curriculum.ends, "scales": scales})
    env[VENDOR_VARIABLE] = VENDOR


def read_phases(env: Mapping[str, str]) -> Phases:
    """The phases that ``announce`` put into the environment."""
    raw = json.loads(env[VARIABLE])
    return Phases(tuple(raw["ends"]), tuple(raw["scales"]))
