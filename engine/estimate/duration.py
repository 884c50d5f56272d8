"""How long a run will take: from measured steps, or not at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from engine.estimate.experience import StepTimes


@dataclass(frozen=True)
class Duration:
    """Seconds. ``basis`` says from which run they are; None: there is none to go by."""

    steps: int | None
    seconds: float | None
    step: float | None
    basis: str | None

    @property
    def hours(self) -> float | None:
        return None if self.seconds is None else self.seconds / 3600

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hours": self.hours}


def duration(steps: int | None, known: StepTimes | None) -> Duration:
    """Start + first step + mean of the later steps x how many: saves and validations are in it."""
    if known is None or steps is None:
        return Duration(steps, None, None, None)
    later = max(0, steps - 1) * known.later_mean
    kind = "the same recipe" if known.same_recipe else "a recipe of the same size"
    return Duration(
        steps=steps,
        seconds=(known.start or 0.0) + known.first + later,
        step=known.later_median,
        basis=f"{known.steps} measured steps of run '{known.run}' ({kind})",
    )
