"""A scan of a log, told to a widget in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from engine.logs.log_file import LogFile
from engine.logs.log_scan import Found, Job, Scan

_EVERY_S = 0.05

Tell = Callable[[list[Found]], object]


class Scanning:
    """A thread that waits for a scanning process. ``tell`` is called in that thread."""

    def __init__(self, file: LogFile, job: Job, tell: Tell) -> None:
        self._tell, self._stopped = tell, threading.Event()
        self._scan: Scan | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(file, job), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process; nothing is told any more."""
        self._stopped.set()
        with self._lock:
            if self._scan is not None:
                self._scan.cancel()

    def _run(self, file: LogFile, job: Job) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            self._scan = Scan(file, job)
        batch: list[Found] = []
        told = 0.0
        with suppress(OSError):
            for found in self._scan.found():
                batch.append(found)
                late = time.monotonic() - told > _EVERY_S
                if (late or "done" in found) and not self._stopped.is_set():
                    self._tell(batch)
                    batch, told = [], time.monotonic()
        if not self._stopped.is_set():
            self._tell([*batch, {"given_up": True}])
