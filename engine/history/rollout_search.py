"""Which steps of a run may contain a text, without loading their rollouts."""

from __future__ import annotations

from collections.abc import Callable

from engine.base.follow import Cancelled
from engine.history.reward_records import Split
from engine.history.rollouts import STEPS_BACK, RolloutStore


class StepSearch:
    """Tests the texts of steps; each step is read once."""

    def __init__(self, store: RolloutStore, split: Split, test: Callable[[str], bool]) -> None:
        """``test`` returns whether a response, as it is in the files, may be a hit."""
        self._store, self._split, self._test = store, split, test
        self._passed: dict[int, bool] = {}

    def may_match(self, step: int, cancelled: Cancelled = bool) -> bool:
        """Whether a rollout of the step may be a hit: it may have been recorded some steps
        before."""
        return any(self._has(earlier, cancelled) for earlier in range(step - STEPS_BACK, step + 1))

    def _has(self, step: int, cancelled: Cancelled) -> bool:
        if step not in self._passed:
            texts = self._store.texts(self._split, step, cancelled)
            self._passed[step] = any(map(self._test, texts))
        return self._passed[step]
