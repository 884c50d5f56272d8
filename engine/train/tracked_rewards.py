"""The reward and judge metrics of a step, for the loggers that verl's numbers go to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.run.history import metrics
from engine.run.history.train_log import RewardJoiner
from engine.run.run import ATTEMPT_DIR_VARIABLE, Attempt


class TrackedRewards:
    """Adds ``metrics.TRACKED`` to verl's numbers of a step, from the records of its rollouts."""

    def __init__(self, reward: Path) -> None:
        self._rewards = RewardJoiner(reward)

    @classmethod
    def of_attempt(cls) -> TrackedRewards | None:
        """Those of the attempt that this process trains for; None outside of a run."""
        attempt = os.environ.get(ATTEMPT_DIR_VARIABLE)
        return cls(Attempt(Path(attempt)).reward) if attempt else None

    def add(self, data: Mapping[str, Any], step: int) -> dict[str, Any]:
        """The numbers with those that are known for this step."""
        self._rewards.collect()
        joined = self._rewards.join(step, data)
        values = {name: joined.get(metrics.canonical(name)) for name in metrics.TRACKED}
        return {**data, **{name: value for name, value in values.items() if value is not None}}
