"""Noticing what becomes of a log file while it is looked at."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.logs.log_file import LogFile

News = Literal["", "opened", "grew", "truncated", "rotated", "deleted"]
_FINGERPRINT = 64


@dataclass(frozen=True)
class Look:
    """``file`` is another object than before when what was read of it no longer counts."""

    news: News
    file: LogFile | None = None
    size: int = 0


class LogFollow:
    """Polls a file by name with ``stat`` and ``pread``: inotify misses other hosts' writes.

    A rotated log is left for the file that took its name. A deleted one stays readable, and its
    writer may go on: it is followed until another file has its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: LogFile | None = None
        self._size = 0
        self._last = b""
        self._gone = False

    def look(self) -> Look:
        """What happened since the last look; cheap when nothing did."""
        file = self._file
        try:
            now = self.path.stat()
        except OSError:
            return self._without_name()
        if file is None:
            return self._open("opened")
        if not os.path.samestat(now, os.fstat(file.descriptor)):
            return self._open("rotated")
        self._gone = False
        return self._grown(file)

    def _without_name(self) -> Look:
        if self._file is None:
            return Look("")
        if not self._gone:
            self._gone = True
            return Look("deleted", self._file, self._size)
        return self._grown(self._file)

    def _open(self, news: News) -> Look:
        try:
            file = LogFile.open(self.path)
        except OSError:
            return Look("")
        self._file, self._gone = file, False
        self._remember(file, file.size)
        return Look(news, file, file.size)

    def _grown(self, file: LogFile) -> Look:
        size = os.fstat(file.descriptor).st_size
        if size < self._size or (size > self._size and self._was_rewritten(file)):
            return self._open("truncated")
        if size == self._size:
            return Look("", file, size)
        self._remember(file, size)
        return Look("grew", file, size)

    def _was_rewritten(self, file: LogFile) -> bool:
        """Whether what stood at the end is gone, though the file has grown longer since."""
        start = self._size - len(self._last)
        return os.pread(file.descriptor, len(self._last), start) != self._last

    def _remember(self, file: LogFile, size: int) -> None:
        self._size = size
        start = max(0, size - _FINGERPRINT)
        self._last = os.pread(file.descriptor, size - start, start)
