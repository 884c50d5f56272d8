"""Examine the health of the visible runs in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.doctor.health import EXAMINE_AGAIN_S, UNKNOWN, Health, HealthBook, is_examined
from engine.run.columns import RunRow
from grubrics_tui.model.poller import Poller

_FIRST_S, _REST = 0.5, 4.0
"""Delay of the first examination; after each one the thread rests four times as long as it took."""

Key = tuple[str, int, float | None]


class EndedRunDoctor:
    """Examines every visible run once, again after it was resumed, and a running one repeatedly."""

    def __init__(self, root: Path, notify: Callable[[], object]) -> None:
        """``notify`` is called in the thread whenever the health of a run is known."""
        self._root, self._notify = root, notify
        self._health: dict[Key, Health | None] = {}
        self._examined: dict[Key, tuple[float, int | None]] = {}
        """When a run was last examined, and at what step."""
        self._poller: Poller[Sequence[RunRow]] = Poller()

    def health(self, row: RunRow) -> Health | None:
        """``UNKNOWN`` until a finished run was examined; None for an active run, unless it is
        unhealthy."""
        if not is_examined(row.state):
            return None
        return self._health.get(_key(row), None if row.state.state == "running" else UNKNOWN)

    def examine(self, runs: Sequence[RunRow]) -> None:
        """Examine these runs, the visible ones, in this order."""
        self._poller.ask([row for row in runs if is_examined(row.state)])

    def begin(self) -> None:
        # A daemon thread: the screen must close at once, however long a log is.
        threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        self._poller.close()

    def _work(self) -> None:
        self._poller.rest(_FIRST_S)
        book = HealthBook(self._root)
        for runs in self._poller.rounds():
            while not self._poller.is_stale() and (row := next(filter(self._is_due, runs), None)):
                started = time.thread_time()
                self._health[_key(row)] = book.examine(row, self._poller.is_closed)
                self._examined[_key(row)] = time.monotonic(), row.state.step
                with suppress(RuntimeError):  # The app has ended meanwhile.
                    self._notify()
                self._poller.rest(_REST * (time.thread_time() - started))

    def _is_due(self, row: RunRow) -> bool:
        if _key(row) not in self._health:
            return True
        if row.state.state != "running":
            return False
        examined, step = self._examined[_key(row)]
        return step != row.state.step and time.monotonic() - examined >= EXAMINE_AGAIN_S


def _key(row: RunRow) -> Key:
    return row.id, row.state.attempt, row.state.ended
