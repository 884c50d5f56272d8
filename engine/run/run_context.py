"""The facts about a run besides its metrics; often empty for an external log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.run.kinds import Kind
from engine.run.trainer_settings import key_of


@dataclass(frozen=True, slots=True)
class Start:
    """One attempt of a run: the first step it logged, and the checkpoint step it resumed from.

    ``asked``: whether the resume was requested; None if unknown.
    """

    attempt: int
    first_step: int
    resumed_from: int | None = None
    asked: bool | None = None


@dataclass(frozen=True, slots=True)
class MetricContext:
    """The facts about a run that rules use; unknown values are None or empty.

    ``config`` holds the effective config values by dotted key; empty for an external run.
    ``total_steps`` is the number of steps the run can reach, ``asked_steps`` that of its config.
    ``has_ended`` says that no more steps will come. ``reward_range`` is the lowest and highest
    reward that its formula allows. ``is_whole`` says that an external log was read to its end, so a
    few records are all there is. ``is_counted`` says that a log does not number its steps; they
    may belong to several trainings.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    kind: Kind | None = None
    total_steps: int | None = None
    asked_steps: int | None = None
    has_ended: bool = False
    starts: tuple[Start, ...] = ()
    reward_range: tuple[float, float] | None = None
    is_whole: bool = False
    is_counted: bool = False
    checkpoints: tuple[int, ...] | None = None
    """The steps of the checkpoints that were saved; None if unknown."""
    model: str = ""
    """The model that an external log names."""
    logs_kl: bool = False
    """Whether a KL loss is among the metrics, so that the run has one."""
    path: str | None = None
    """The file of the metrics, as evidence names it."""
    in_file: Mapping[str, object] = field(default_factory=dict)
    """The values in the config file of the keys that were overridden."""

    def get(self, key: str | None, default: object = None) -> object:
        """Return the config value; ``default`` if the config is unknown or lacks the key."""
        return default if key is None else self.config.get(key, default)

    @property
    def rollouts_per_step(self) -> int | None:
        """How many rollouts the config asks for; None if unknown."""
        prompts, rollouts = self.get(key_of("batch")), self.get(key_of("rollouts"))
        if not isinstance(prompts, int) or not isinstance(rollouts, int):
            return None
        return prompts * rollouts
