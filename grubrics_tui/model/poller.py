"""Repeat work in a thread: after a pause, or at once when asked to, until the screen closes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

T = TypeVar("T")

Clock = Callable[[], float]
"""Seconds, such as ``time.monotonic``, or ``time.thread_time`` to count only processor time."""


@dataclass
class Pace:
    """Pauses of ``every`` seconds, or longer where the work would take more than ``share`` of the
    time.

    The first ``free`` rounds, which read everything, do not count towards the share.
    """

    every: float
    share: float = 1.0
    free: int = 0

    def pause(self, cost: float) -> float:
        """Seconds to pause after a round that cost so many seconds."""
        share = 1.0 if self.free else self.share
        self.free = max(0, self.free - 1)
        return max(self.every, cost / share)


class Poller(Generic[T]):
    """Passes the latest request of a screen to the one thread that works on it in ``rounds``.

    All methods but ``rounds``, ``next_in`` and ``rest`` may be called from any thread.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """``clock`` measures the cost of a round."""
        self._clock = clock
        self._changed = threading.Condition()
        self._request: T | None = None
        self._next_s: float | None = None
        self._is_new = self._is_urgent = self._is_working = self._is_closed = False

    def ask(self, request: T, *, now: bool = True) -> None:
        """Work on this request from the next round on; ``now`` ends the pause before it.

        A request that is being worked on is not started again: otherwise a screen that asks every
        other second would never get an answer that takes three.
        """
        with self._changed:
            if self._is_new or not self._is_working or request != self._request:
                self._request, self._is_new = request, True
                self._is_urgent = self._is_urgent or now
                self._changed.notify()

    def wake(self) -> None:
        """Begin the next round now, with the same request."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def is_closed(self) -> bool:
        return self._is_closed

    def is_stale(self) -> bool:
        """Whether the result of this round is not needed: the poller is closed or was asked for
        something else."""
        return self._is_closed or self._is_new

    def rounds(self, pace: Pace | None = None) -> Iterator[T]:
        """Yield the request to work on in each round, until the poller is closed.

        Without a ``pace``, and unless ``next_in`` is called, a round begins only when asked for.
        """
        while self._wait(self._next_s):
            self._next_s = None
            started = self._clock()
            yield cast("T", self._request)
            if pace is not None:
                self._next_s = pace.pause(self._clock() - started)

    def next_in(self, seconds: float) -> None:
        """Begin the next round after this pause."""
        self._next_s = seconds

    def rest(self, seconds: float) -> None:
        """Pause the thread within a round; ``close`` ends the pause."""
        with self._changed:
            self._changed.wait_for(self.is_closed, seconds)

    def _wait(self, seconds: float | None) -> bool:
        """Wait for the next round; False if the poller was closed."""
        with self._changed:
            self._is_working = False
            self._changed.wait_for(
                lambda: self._is_closed or self._is_urgent or (self._is_new and seconds is None),
                seconds,
            )
            self._is_new = self._is_urgent = False
            self._is_working = not self._is_closed
            return self._is_working
