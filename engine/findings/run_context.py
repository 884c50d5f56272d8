"""What is known of a run besides its numbers; of a foreign log often nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.runs.kinds import Kind


@dataclass(frozen=True, slots=True)
class Start:
    """One attempt of a run: the first step it logged, and the checkpoint step it went on from.

    ``asked`` is whether a person wanted it to go on from a checkpoint; None where nobody can tell.
    """

    attempt: int
    first_step: int
    resumed_from: int | None = None
    asked: bool | None = None


@dataclass(frozen=True, slots=True)
class MetricContext:
    """``recipe`` holds effective values by dotted key; empty for a run that was not launched here.
    ``kind`` is None where it is unknown.

    ``total_steps`` is what the run can reach, ``asked_steps`` what its recipe asked for.
    ``has_ended`` says that no more steps will come. ``reward_range`` is the lowest and highest
    reward that can occur, by the reward's own arithmetic. ``is_whole`` says of another program's
    log that it ends where it was read to, so that a few records are all there will be.
    ``is_counted`` says that it does not number its steps: they may be of several trainings.
    """

    recipe: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind | None = None
    total_steps: int | None = None
    asked_steps: int | None = None
    has_ended: bool = False
    starts: tuple[Start, ...] = ()
    reward_range: tuple[float, float] | None = None
    is_whole: bool = False
    is_counted: bool = False
    path: str | None = None
    """The file the numbers come from, as evidence names it."""
    in_file: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe's file says of the keys that were overridden."""

    def get(self, key: str | None, default: Any = None) -> Any:
        """The recipe's value; ``default`` where the recipe is unknown or has none."""
        return default if key is None else self.recipe.get(key, default)
