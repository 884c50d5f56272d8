"""Diagnoses the console log of a run as it grows. Memory is bounded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base.follow import RESTARTS, FileFollower
from engine.doctor.text.findings import findings
from engine.doctor.text.reader import LogReader
from engine.findings.finding import Finding

_CHUNK = 4 * 1024 * 1024

Stopped = Callable[[], bool]
"""Called between two parts of a long log; True if the result is no longer needed."""


def never() -> bool:
    return False


class ConsoleDiagnosis:
    """Follows one console log. A truncated or replaced file is read from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._reader = LogReader()

    def findings(self, *, ended: bool, stopped: Stopped = never) -> list[Finding]:
        """Return the current findings; none for a missing file.

        ``ended`` means that the last line is complete.
        """
        if self._follower.poll() in RESTARTS:
            self._reader = LogReader()
        file = self._follower.file
        if file is None or self._follower.is_deleted:
            return []
        for data in file.chunks(_CHUNK):
            if stopped():
                break
            self._reader.feed(data)
        reader = self._reader.as_ended() if ended and not file.behind() else self._reader
        return findings(reader, str(self.path), ended=ended)
