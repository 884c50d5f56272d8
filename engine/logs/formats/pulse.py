"""Whether the files of an external run grow: such a run has no heartbeat."""

from __future__ import annotations

import stat
import time
from pathlib import Path

from engine.run.state import GROWING

QUIET_S = 60.0
"""Seconds without growth after which a source no longer counts as growing."""


class Pulse:
    """How long a source has not grown, in words that change at most once a minute."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._changed = time.monotonic()
        self._age = 0.0
        """Seconds from the last growth to the first call, by the clock of the file system."""

    def feel(self) -> str:
        if (quiet_s := self.quiet_s()) is None:
            return "the file is gone"
        return GROWING if quiet_s < QUIET_S else f"quiet for {_span(quiet_s)}"

    def quiet_s(self) -> float | None:
        """Seconds since the last growth; None if the source is gone."""
        try:
            now, changed = _stamp(self._path)
        except OSError:
            return None
        if self._seen is None:
            self._age = max(0.0, time.time() - changed)
        elif now != self._seen:
            self._changed, self._age = time.monotonic(), 0.0
        self._seen = now
        return self._age + time.monotonic() - self._changed


def _stamp(path: Path) -> tuple[tuple[int, int], float]:
    """What changes when a file, or a file directly in a folder, grows; and the time of that."""
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        return (status.st_size, status.st_mtime_ns), status.st_mtime
    times = [status.st_mtime_ns, *(entry.lstat().st_mtime_ns for entry in path.iterdir())]
    return (len(times), max(times)), max(times) / 1e9


def _span(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
