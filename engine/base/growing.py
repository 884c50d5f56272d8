"""A file of records that grows: each of its whole lines is read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base import files
from engine.base.holes import numbered_lines

Cancelled = Callable[[], bool]
_LOOK_UP = 256
"""Lines between two looks at whether somebody still wants the answer."""


class GrowingRecords:
    """What its lines add up to, kept by who derives from this. Memory is theirs to bound."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._forget()

    def look(self, cancelled: Cancelled = bool) -> None:
        """Add what was appended. A torn last line waits; a file written anew is read anew."""
        try:
            handle = files.open_regular(self.path)
        except OSError:
            return
        with handle:
            if handle.seek(0, 2) < self._read:
                self._read = 0
                self._forget()
            lines = numbered_lines(handle.fileno(), self._read)
            for number, (offset, line) in enumerate(lines):
                if not line.endswith(b"\n") or (number % _LOOK_UP == 0 and cancelled()):
                    return
                self._add(line, offset)
                self._read = offset + len(line)

    def _forget(self) -> None:
        """Begin without any line."""
        raise NotImplementedError

    def _add(self, line: bytes, offset: int) -> None:
        """One more line, which begins at this byte."""
        raise NotImplementedError
