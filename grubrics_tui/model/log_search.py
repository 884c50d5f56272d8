"""Scans of a log in another process, passed on in batches; a search and its hits so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from engine.logs.log_file import LogFile, Offsets
from engine.logs.log_query import Query
from engine.logs.log_scan import Found, Job, Scan

_EVERY_S = 0.05

Receive = Callable[[list[Found]], object]


class LogScan:
    """A thread that waits for a scanning process; ``receive`` is called in that thread."""

    def __init__(self, file: LogFile, job: Job, receive: Receive) -> None:
        self._receive, self._stopped = receive, threading.Event()
        self._scan: Scan | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, args=(file, job), daemon=True).start()

    def stop(self) -> None:
        """End the process; ``receive`` is not called any more."""
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
        sent_at = 0.0
        with suppress(OSError):
            for piece in self._scan.results():
                batch.append(piece)
                is_due = time.monotonic() - sent_at > _EVERY_S
                if (is_due or "done" in piece) and not self._stopped.is_set():
                    self._receive(batch)
                    batch, sent_at = [], time.monotonic()
        if not self._stopped.is_set():
            self._receive([*batch, {"given_up": True}])


@dataclass
class LogSearch:
    """Lines that match ``query``. ``running`` until the whole file was read or it was stopped."""

    query: Query
    job: Job
    hits: Offsets = field(default_factory=Offsets)
    read: int = 0
    running: bool = True
    full: bool = False
    given_up: bool = False
    """A part of the file took too long, or the scan died."""
    scan: LogScan | None = None
    _turned: bool = False

    def start(self, file: LogFile, receive: Receive) -> None:
        self.scan = LogScan(file, self.job, receive)

    def add(self, pieces: list[Found]) -> None:
        origin, upwards_first = self.job.origin, self.job.upwards_first
        for piece in pieces:
            if "from" in piece:
                self.hits.replace(piece["from"], piece["to"], piece["hits"])
                self.read += piece["to"] - piece["from"]
                # The side of the origin that is searched last.
                is_beyond = piece["from"] > origin if upwards_first else piece["to"] <= origin
                self._turned = self._turned or is_beyond
            self.full = self.full or "full" in piece
            self.given_up = self.given_up or ("given_up" in piece and not self.full)
            if "done" in piece or self.full or self.given_up:
                self.running, self._turned = False, True

    def first(self) -> int | None:
        """The hit to show first: the nearest on the side of the origin that is searched first, or
        the nearest on the other side.

        None as long as a nearer one may still be found.
        """
        origin = self.job.origin
        above, below = self.hits.before(origin + 1), self.hits.at_or_after(origin)
        near, far = (above, below) if self.job.upwards_first else (below, above)
        if near is not None:
            return near
        return far if self._turned else None

    def stop(self) -> None:
        self.running = False
        if self.scan is not None:
            self.scan.stop()
