"""What rules know of a run besides what they examine; often little of an external log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.run.kinds import Kind
from engine.run.trainer_settings import key_of

_CHARS_A_TOKEN = 12
"""More than any tokenizer's mean over a text; single tokens may be longer."""


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
class RuleContext:
    """The facts about a run that rules and fixes use, of whatever they know: a run's folder, an
    external log, or a config before its launch. Unknown values are None or empty.

    ``config`` holds the effective config values by dotted key; empty for an external run.
    ``total_steps`` is the number of steps the run can reach, ``asked_steps`` that of its config.
    ``has_ended`` says that no more steps will come. ``is_whole`` says that an external log was read
    to its end, so a few records are all there is. ``is_counted`` says that a log does not number
    its steps; they may belong to several trainings.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    kind: Kind | None = None
    total_steps: int | None = None
    asked_steps: int | None = None
    has_ended: bool = False
    starts: tuple[Start, ...] = ()
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

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The lowest and highest reward that the reward formula allows with the config's weights.

        None if the config uses another reward function or lacks a weight. Best: alignment 1 and the
        whole information bonus. Worst: alignment -1, no spread, and a rubric of the maximum
        response length (see ``engine.reward.reward``).
        """
        if self.get("reward.custom_reward_function.path"):
            return None
        names = ("lambda_len", "lambda_info", "lambda_defense", "char_threshold")
        known = self._numbers(*(f"reward_config.{name}" for name in names), key_of("length"))
        if known is None:
            return None
        by_length, by_info, by_defense, threshold, tokens = known
        longest = max(0.0, _CHARS_A_TOKEN * tokens - threshold) / max(threshold, 1.0)
        overlong = self._overlong_penalty(tokens)
        return -1.0 - by_defense - by_length * longest - overlong, 1.0 + by_info

    def _overlong_penalty(self, tokens: float) -> float:
        """The length penalty of the longest response (see ``engine.train.reward_entry``)."""
        section = "reward.reward_kwargs.overlong_buffer_cfg"
        keys = (f"{section}.len", f"{section}.penalty_factor", "reward.reward_kwargs.max_resp_len")
        known = self._numbers(*keys)
        if known is None or not self.get(f"{section}.enable"):
            return 0.0
        buffer, factor, limit = known
        return max(0.0, (tokens - limit + buffer) / max(buffer, 1.0) * factor)

    def _numbers(self, *keys: str) -> list[float] | None:
        """The values of these keys; None if one of them is no number."""
        values = [self.get(key) for key in keys]
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        return numbers if len(numbers) == len(keys) else None
