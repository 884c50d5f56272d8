"""Which attempt a step belongs to, in a log that a resumed run was appended to."""

from __future__ import annotations

from engine.history.train_log import Metrics, Step


class Numbering:
    """A step below the one before it begins a new attempt; steps seen before are redone."""

    def __init__(self) -> None:
        self._attempt = 1
        self._last = -1
        self._highest = -1
        self._highest_before = -1
        """The highest step of the attempts before this one."""

    def step(self, number: int, metrics: Metrics, time: float = 0.0) -> Step:
        if number < self._last:
            self._attempt += 1
            self._highest_before = self._highest
        self._last = number
        self._highest = max(self._highest, number)
        redone = number <= self._highest_before
        return Step(number, self._attempt, time, metrics, redone)
