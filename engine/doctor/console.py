"""Follows the console log of a run, look by look. Memory is bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from engine.base import files
from engine.base.holes import after_hole, chunks
from engine.doctor.text.findings import findings
from engine.doctor.text.reader import LogReader
from engine.findings.finding import Finding

_READ = 4 * 1024 * 1024

Stopped = Callable[[], bool]
"""Asked between two parts of a long log: whether nobody waits for the answer any more."""


def never() -> bool:
    return False


class ConsoleDiagnosis:
    """Follows one console log. A file that was cut or replaced is read anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader, self._read = LogReader(), 0
        self._node: int | None = None

    def look(self, *, ended: bool, stopped: Stopped = never) -> list[Finding]:
        """What the log tells so far; ``ended`` says that its last line is whole."""
        reader = self.read(ended=ended, stopped=stopped)
        return [] if reader is None else findings(reader, str(self.path), ended=ended)

    def read(self, *, ended: bool, stopped: Stopped = never) -> LogReader | None:
        """Read what is new; None for a file that is not there."""
        try:
            handle = files.open_regular(self.path)
        except OSError:
            return None
        with handle:
            end = handle.seek(0, os.SEEK_END)
            self._begin_anew_unless_same(handle.fileno(), end)
            for offset, data in chunks(handle.fileno(), self._read, _READ):
                if stopped():
                    break
                self._reader.feed(data)
                self._read = offset + len(data)
            else:
                self._read = after_hole(handle.fileno(), self._read)
        return self._reader.ended() if ended and self._read >= end else self._reader

    def _begin_anew_unless_same(self, descriptor: int, end: int) -> None:
        node = os.fstat(descriptor).st_ino
        if self._node != node or end < self._read:
            self._reader, self._read, self._node = LogReader(), 0, node
