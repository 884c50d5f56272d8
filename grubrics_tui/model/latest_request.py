"""Requests to a thread: one at a time, and the latest one is always done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestRequest(Generic[T]):
    """Requests from the screen, taken one by one in a thread.

    A newer request overtakes those before it. Asking for what is being done changes nothing: a
    screen that asks every other second would else never get what takes three.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: T | None = None
        self._doing: T | None = None
        self._closed = False

    def ask(self, wanted: T) -> None:
        """Any thread. ``wanted`` comes out of ``requests``, or something newer does."""
        with self._changed:
            if self._waiting is not None or wanted != self._doing:
                self._waiting = wanted
                self._changed.notify()

    def requests(self) -> Iterator[T]:
        """Waits for each next one, until it is closed. For one thread."""
        while (wanted := self._take()) is not None:
            yield wanted

    def is_stale(self) -> bool:
        """Whether the request that is being done was overtaken: it need not be finished."""
        return self._closed or self._waiting is not None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _take(self) -> T | None:
        with self._changed:
            self._doing = None
            self._changed.wait_for(lambda: self._closed or self._waiting is not None)
            if self._closed:
                return None
            self._doing, self._waiting = self._waiting, None
            return self._doing
