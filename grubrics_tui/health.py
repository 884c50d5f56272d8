"""The health of finished runs: of those in sight, found out in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.doctor.health import UNKNOWN, Health, HealthBook
from engine.runs.registry import RunInfo

_FIRST_S, _REST = 0.5, 4.0
"""The list comes first; between two runs the thread rests four times as long as it worked."""

Key = tuple[str, int, float | None]


class HealthWatch:
    """Every run is looked at once, and again after it was resumed. What is out of sight waits."""

    def __init__(self, root: Path, tell: Callable[[], object]) -> None:
        """``tell`` is called in the thread whenever the health of a run is known."""
        self._root, self._tell = root, tell
        self._wanted: Sequence[RunInfo] = ()
        self._known: dict[Key, Health | None] = {}
        self._wake, self._left = threading.Event(), threading.Event()

    def of(self, info: RunInfo) -> Health | None:
        """``UNKNOWN`` until a finished run was examined; None for one that has not finished."""
        return self._known.get(_key(info), UNKNOWN) if info.state.state == "finished" else None

    def want(self, runs: Sequence[RunInfo]) -> None:
        """These are in sight, the most wanted first."""
        self._wanted = [info for info in runs if info.state.state == "finished"]
        self._wake.set()

    def begin(self) -> None:
        # Nobody waits for it: the screen must close at once, however long a log is.
        threading.Thread(target=self._work, daemon=True).start()

    def leave(self) -> None:
        self._left.set()
        self._wake.set()

    def _work(self) -> None:
        self._left.wait(_FIRST_S)
        book = HealthBook(self._root)
        while not self._left.is_set():
            self._wake.clear()
            info = next((one for one in self._wanted if _key(one) not in self._known), None)
            if info is None:
                self._wake.wait()
                continue
            started = time.thread_time()
            self._known[_key(info)] = book.examine(info, self._left.is_set)
            with suppress(RuntimeError):  # The app has ended meanwhile.
                self._tell()
            self._left.wait(_REST * (time.thread_time() - started))


def _key(info: RunInfo) -> Key:
    return info.id, info.state.attempt, info.state.ended
