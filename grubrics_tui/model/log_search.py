"""A search in a log: the hits so far, and the next one."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.logs.log_file import Offsets
from engine.logs.log_query import Query
from engine.logs.log_scan import Found, Job
from grubrics_tui.model.log_scan_thread import LogScanThread


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
    scanning: LogScanThread | None = None
    _turned: bool = False

    def add(self, found: list[Found]) -> None:
        for piece in found:
            if "from" in piece:
                self.hits.replace(piece["from"], piece["to"], piece["hits"])
                self.read += piece["to"] - piece["from"]
                self._turned = self._turned or self._is_beyond(piece)
            self.full = self.full or "full" in piece
            self.given_up = self.given_up or ("given_up" in piece and not self.full)
            if "done" in piece or self.full or self.given_up:
                self.running, self._turned = False, True

    def first(self) -> int | None:
        """The hit to show first: the nearest above where it began, or the nearest below.

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
        if self.scanning is not None:
            self.scanning.stop()

    def _is_beyond(self, piece: Found) -> bool:
        """Whether a piece is on the side of the origin that is searched last."""
        if self.job.upwards_first:
            return bool(piece["from"] > self.job.origin)
        return bool(piece["to"] <= self.job.origin)
