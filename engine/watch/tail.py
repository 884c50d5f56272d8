"""Following a file that another process appends to."""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK = 1 << 20


class Tail:
    """Whole lines appended to a file since the last look.

    Polls with ``pread`` rather than inotify, which misses other hosts' writes on network file
    systems. A torn last line is left for the next look. Truncation and replacement of the file
    start it over. A missing file has no lines yet.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._inode: int | None = None

    def lines(self) -> list[bytes]:
        """The new complete lines, without their line ends."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            return self._read(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> list[bytes]:
        status = os.fstat(descriptor)
        if status.st_size < self.offset or self._inode not in (None, status.st_ino):
            self.offset = 0
        self._inode = status.st_ino
        parts = []
        position = self.offset
        while chunk := os.pread(descriptor, _CHUNK, position):
            parts.append(chunk)
            position += len(chunk)
        data = b"".join(parts)
        end = data.rfind(b"\n") + 1
        self.offset += end
        return data[:end].split(b"\n")[:-1]


def near_end(path: Path, limit: int) -> int:
    """Where the first line begins that lies wholly in the last ``limit`` bytes of a file."""
    try:
        with path.open("rb") as handle:
            start = max(0, handle.seek(0, os.SEEK_END) - limit)
            handle.seek(start)
            return start + len(handle.readline()) if start else 0
    except FileNotFoundError:
        return 0


def last_lines(path: Path, count: int, limit: int = 256 * 1024) -> list[bytes]:
    """The last ``count`` lines of a file, reading at most ``limit`` bytes from its end."""
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - limit))
            data = handle.read(limit)
    except FileNotFoundError:
        return []
    return data.splitlines()[-count:]
