"""Settings of supervision, and detection of stalls: no step for much longer than usual.

The settings are plain values, which the supervisor reads without pydantic.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from engine.base.jsonl import number
from engine.base.quantities import format_seconds
from engine.base.typed import Number, convert_record
from engine.run.manifest import FullManifest

_REWARDS_AT_ONCE = 2.0
"""A step that waits for a hanging reward, or for two in turn, continues by itself: no stall."""


class Supervision(Struct, frozen=True):
    """The ``supervision`` section of the config of a run. Seconds."""

    interrupt_patience_s: Number = 15.0
    terminate_patience_s: Number = 5.0
    stall_factor: Number = 8.0
    stall_floor_s: Number = 60.0
    start_patience_s: Number = 1800.0
    stack_dumps: bool = True
    queue_fast_failure_s: Number = 120.0

    @classmethod
    def of(cls, manifest: FullManifest) -> Supervision:
        names = cls.__struct_fields__
        given = {name: manifest.value(f"supervision.{name}") for name in names}
        supervision = convert_record(given, cls) or cls()
        if manifest.is_command:
            supervision = replace(supervision, start_patience_s=math.inf)  # It may have no steps.
        patience_s = _REWARDS_AT_ONCE * _reward_limit_s(manifest)
        return replace(supervision, stall_floor_s=max(supervision.stall_floor_s, patience_s))


def _reward_limit_s(manifest: FullManifest) -> float:
    """The time limit of one call of the config's reward function; 0 without one."""
    if not manifest.value("reward.custom_reward_function.path"):
        return 0.0
    return number(manifest.value("grubrics.reward_timeout_s")) or 0.0


class StallWatch:
    """Compares the silence since the last step with the median duration of this run's steps.

    A scored rollout ends the silence, because a step that replaces many groups takes many times as
    long as others. The limit follows the run's own median: a fixed limit would call every step of a
    large model a stall. A stopped process (SIGSTOP) counts after the floor's time, however long
    steps take. Time is monotonic, so a jump of the wall clock is no stall.
    """

    def __init__(self, supervision: Supervision, now: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = supervision.start_patience_s
        self._factor = supervision.stall_factor
        self._floor_s = supervision.stall_floor_s
        self._now = now
        self._last_step = self._last_progress = now()
        self._steps = 0
        self._durations: deque[float] = deque(maxlen=50)
        self._stopped: dict[int, float] = {}

    def step(self) -> None:
        """Note that a step was logged."""
        now = self._now()
        if self._steps:
            self._durations.append(now - self._last_step)
        self._last_step = self._last_progress = now
        self._steps += 1

    def progress(self) -> None:
        """Note that a rollout got its reward, or that a program printed something."""
        self._last_progress = self._now()

    def see_stopped(self, pids: Iterable[int]) -> None:
        """Note all processes of the run that are stopped now."""
        now = self._now()
        self._stopped = {pid: self._stopped.get(pid, now) for pid in pids}

    @property
    def is_stopped(self) -> bool:
        """Whether a process of the run was stopped at the last ``see_stopped``."""
        return bool(self._stopped)

    def continued(self) -> None:
        """Note that a stopped process runs again: the silence until now does not count."""
        self._last_progress = self._now()

    def limit_s(self) -> float:
        """Seconds of silence that make a stall; a fixed time before the second step."""
        if not self._durations:
            return self._patience_s
        return max(self._floor_s, self._factor * median(self._durations))

    def complaint(self) -> str | None:
        """Why the run is stalled; None if it is not."""
        if self._now() - self._last_progress <= self.limit_s() and not self._is_held():
            return None
        silence = self._now() - self._last_step
        if not self._steps:
            return f"no first step after {silence:.0f} s"
        if not self._durations:
            return f"no second step for {silence:.0f} s"
        typical = median(self._durations)
        return f"no step for {silence:.0f} s; the median step takes {format_seconds(typical)}"

    def _is_held(self) -> bool:
        """Whether a process has been stopped, without progress, for the floor's time."""
        since = max(self._last_progress, min(self._stopped.values(), default=math.inf))
        return self._now() - since > self._floor_s
