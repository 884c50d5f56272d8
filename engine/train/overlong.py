"""DAPO's overlong shaping: the reward falls linearly over the last tokens before a limit.

    overlong = min(-(length - (max_resp_len - len)) / len * penalty_factor, 0)

Computed on a tensor as verl's ``DAPORewardManager`` does (``reward_manager/dapo.py``), so that both
agree to the last bit: a length is a tensor there, and its division is one of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAME = "overlong_reward"


@dataclass(frozen=True)
class Overlong:
    """``reward.reward_kwargs``: tokens of the buffer, what they cost at most, the hard limit."""

    buffer: int
    factor: float
    limit: int
    log: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Overlong | None:
        """None where the buffer is not enabled. Raises KeyError for a part that is missing."""
        buffer = settings.get("overlong_buffer_cfg") or {}
        if not buffer.get("enable"):
            return None
        return cls(
            buffer=int(buffer["len"]),
            factor=float(buffer["penalty_factor"]),
            limit=int(settings["max_resp_len"]),
            log=bool(buffer.get("log", False)),
        )

    def shape(self, reward: float, length: Any) -> tuple[float, float]:
        """The shaped reward and what the length took of it (at most 0). ``length`` is a tensor."""
        exceeding = length - (self.limit - self.buffer)
        taken = min(-exceeding / self.buffer * self.factor, 0)
        return float(reward + taken), float(taken)

    def numbers(self, taken: float) -> dict[str, float]:
        """What verl's manager adds to the validation metrics."""
        return {NAME: taken, "overlong": float(taken < 0)} if self.log else {}
