"""Examine the health of the visible runs in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.doctor.health import EXAMINE_AGAIN_S, UNKNOWN, Health, HealthBook, is_examined
from engine.runs.columns import RunInfo

_FIRST_S, _REST = 0.5, 4.0
"""Delay of the first look; after each run the thread rests four times as long as it worked."""

Key = tuple[str, int, float | None]


class EndedRunDoctor:
    """Examines every visible run once, again after it was resumed, and a running one repeatedly."""

    def __init__(self, root: Path, tell: Callable[[], object]) -> None:
        """``tell`` is called in the thread whenever the health of a run is known."""
        self._root, self._tell = root, tell
        self._wanted: Sequence[RunInfo] = ()
        self._known: dict[Key, Health | None] = {}
        self._looks: dict[Key, tuple[float, int | None]] = {}
        """When a running run was last examined, and at what step."""
        self._wake, self._left = threading.Event(), threading.Event()

    def of(self, info: RunInfo) -> Health | None:
        """``UNKNOWN`` until a finished run was examined; None for an active run, unless it is
        unhealthy."""
        if not is_examined(info.state):
            return None
        return self._known.get(_key(info), None if info.state.state == "running" else UNKNOWN)

    def want(self, runs: Sequence[RunInfo]) -> None:
        """These are in sight, the most wanted first."""
        self._wanted = [info for info in runs if is_examined(info.state)]
        self._wake.set()

    def begin(self) -> None:
        # A daemon thread: the screen must close at once, however long a log is.
        threading.Thread(target=self._work, daemon=True).start()

    def leave(self) -> None:
        self._left.set()
        self._wake.set()

    def _work(self) -> None:
        self._left.wait(_FIRST_S)
        book = HealthBook(self._root)
        while not self._left.is_set():
            self._wake.clear()
            info = next((one for one in self._wanted if self._is_due(one)), None)
            if info is None:
                self._wake.wait()
                continue
            started = time.thread_time()
            self._known[_key(info)] = book.examine(info, self._left.is_set)
            self._looks[_key(info)] = time.monotonic(), info.state.step
            with suppress(RuntimeError):  # The app has ended meanwhile.
                self._tell()
            self._left.wait(_REST * (time.thread_time() - started))

    def _is_due(self, info: RunInfo) -> bool:
        if _key(info) not in self._known:
            return True
        if info.state.state != "running":
            return False
        looked, step = self._looks[_key(info)]
        return step != info.state.step and time.monotonic() - looked >= EXAMINE_AGAIN_S


def _key(info: RunInfo) -> Key:
    return info.id, info.state.attempt, info.state.ended
