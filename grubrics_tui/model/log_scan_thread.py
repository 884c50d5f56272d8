"""A thread that passes the results of a log scan to a widget in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from engine.logs.log_file import LogFile
from engine.logs.log_scan import Found, Job, Scan

_EVERY_S = 0.05

Take = Callable[[list[Found]], object]


class LogScanThread:
    """Waits for a scanning process. ``take`` is called in that thread."""

    def __init__(self, file: LogFile, job: Job, take: Take) -> None:
        self._take, self._stopped = take, threading.Event()
        self._scan: Scan | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(file, job), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process; ``take`` is not called any more."""
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
        taken_at = 0.0
        with suppress(OSError):
            for found in self._scan.found():
                batch.append(found)
                late = time.monotonic() - taken_at > _EVERY_S
                if (late or "done" in found) and not self._stopped.is_set():
                    self._take(batch)
                    batch, taken_at = [], time.monotonic()
        if not self._stopped.is_set():
            self._take([*batch, {"given_up": True}])
