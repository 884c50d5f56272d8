"""Whether a run that goes on has stopped getting anywhere."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median

from engine.base.times import seconds
from engine.supervise.settings import Supervision


class StallWatch:
    """Compares the silence since the last step with what steps of this run took so far.

    A rollout that is scored breaks the silence: a step that replaces many groups takes many times
    as long as others, and continues. The yardstick is the run's own median: a fixed one would call
    every step of a large model a stall. A process that is stopped needs no yardstick: it does not
    work, however long steps take. Time is monotonic, so a jump of the wall clock is no stall.
    """

    def __init__(self, supervision: Supervision, now: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = supervision.start_patience_s
        self._factor = supervision.stall_factor
        self._floor_s = supervision.stall_floor_s
        self._now = now
        self._last = self._heard = now()
        self._steps = 0
        self._durations: deque[float] = deque(maxlen=50)
        self._stopped: dict[int, float] = {}

    def step(self) -> None:
        """A step was logged."""
        now = self._now()
        if self._steps:
            self._durations.append(now - self._last)
        self._last = self._heard = now
        self._steps += 1

    def rollout(self) -> None:
        """A rollout got its reward."""
        self._heard = self._now()

    def see_stopped(self, pids: Iterable[int]) -> None:
        """Which processes of the run are stopped now, all of them."""
        now = self._now()
        self._stopped = {pid: self._stopped.get(pid, now) for pid in pids}

    @property
    def is_stopped(self) -> bool:
        """Whether a process of the run was stopped at the last look."""
        return bool(self._stopped)

    def continued(self) -> None:
        """What was stopped works again: the silence until now says nothing."""
        self._heard = self._now()

    def limit_s(self) -> float:
        """Seconds of silence that make a stall; a fixed time until two steps are known."""
        if not self._durations:
            return self._patience_s
        return max(self._floor_s, self._factor * median(self._durations))

    def complaint(self) -> str | None:
        """What to say of a stalled run; None for one that goes on."""
        if self._now() - self._heard <= self.limit_s() and not self._is_held():
            return None
        silence = self._now() - self._last
        if not self._steps:
            return f"no first step after {silence:.0f} s"
        if not self._durations:
            return f"no second step for {silence:.0f} s"
        typical = median(self._durations)
        return f"no step for {silence:.0f} s; the median step takes {seconds(typical)}"

    def _is_held(self) -> bool:
        """Whether a process has been stopped, without a sign of progress, for the floor's time."""
        since = max(self._heard, min(self._stopped.values(), default=math.inf))
        return self._now() - since > self._floor_s
