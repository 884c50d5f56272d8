"""Following a file that another process appends to."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from engine.base import files
from engine.base.holes import after_hole

_CHUNK = 1 << 20
_FINGERPRINT = 1024  # more than one line: equal ones differ in their times
_LONGEST_LINE = 64 << 20


class Tail:
    """Whole lines appended to a file since the last look.

    Polls with ``pread`` rather than inotify, which misses other hosts' writes on network file
    systems. A torn last line is left for the next look. A truncated file is read from its start.
    One that was renamed or deleted is read on beside the file that took its name, because its
    writer still holds it. What cannot be read has no lines yet.
    """

    def __init__(self, path: Path, offset: int = 0, *, ends_at_return: bool = False) -> None:
        """With ``ends_at_return`` a carriage return ends a line too, as a progress bar's does."""
        self.path = path
        self._ends = (b"\n", b"\r") if ends_at_return else (b"\n",)
        self._start = offset
        self._files: list[_OpenFile] = []
        """The file of that name, after the one that had it before, if any."""
        self._replaced = 0

    def lines(self, at_most: int | None = None) -> list[bytes]:
        """The new complete lines, without their line ends."""
        return self.block(at_most).split(b"\n")[:-1]

    def block(self, at_most: int | None = None) -> bytes:
        """The new complete lines with their line ends.

        ``at_most`` bytes are read of a file at a time, rounded up to whole mebibytes and lines;
        ``behind`` then says what is left for the next look.
        """
        self._look()
        return b"".join([file.block(at_most) for file in self._files])

    def behind(self) -> int:
        """Bytes written that were not read yet, a torn last line included."""
        return sum(file.behind() for file in self._files)

    def size(self) -> int:
        """Bytes of the files that are followed."""
        return sum(file.size() for file in self._files)

    @property
    def restarts(self) -> int:
        """How often the file was cut, written anew or replaced: lines from then on begin with the
        first one that it has."""
        return self._replaced + (self._files[-1].restarts if self._files else 0)

    def _look(self) -> None:
        try:
            descriptor = files.open_descriptor(self.path)
        except OSError:
            return
        if self._files and self._files[-1].is_same(descriptor):
            os.close(descriptor)
            return
        offset = 0 if self._files else self._start
        self._replaced = self.restarts + 1 if self._files else 0
        self._files = [*self._files[-1:], _OpenFile(descriptor, offset, self._ends)]


class _OpenFile:
    """A file that stays readable whatever becomes of its name."""

    def __init__(self, descriptor: int, offset: int, ends: tuple[bytes, ...]) -> None:
        self._descriptor, self._ends = descriptor, ends
        self._offset = offset
        self._last_read = b""
        self.restarts = 0
        weakref.finalize(self, os.close, descriptor)

    def is_same(self, descriptor: int) -> bool:
        return os.path.sameopenfile(self._descriptor, descriptor)

    def behind(self) -> int:
        return max(0, self.size() - self._offset)

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError:
            return 0

    def block(self, at_most: int | None = None) -> bytes:
        try:
            return self._read(at_most)
        except OSError:
            return b""

    def _read(self, at_most: int | None) -> bytes:
        if self._was_rewritten():
            self._offset, self._last_read = 0, b""
            self.restarts += 1
        blocks: list[bytes] = []
        parts: list[bytes] = []
        position = self._offset
        while True:
            if (resumed := after_hole(self._descriptor, position)) > position:
                blocks.append(self._whole(b"".join(parts)))
                self._offset = position = resumed
                parts, self._last_read = [], b""
            if not (chunk := os.pread(self._descriptor, _CHUNK, position)):
                break
            parts.append(chunk)
            position += len(chunk)
            # A line longer than the limit is read to its end: else it would never be whole.
            if at_most is not None and position - self._offset >= at_most and self._whole(chunk):
                break
            if position - self._offset >= _LONGEST_LINE and not self._whole(parts[0]):
                break
        data = b"".join(parts)
        whole = self._whole(data)
        blocks.append(whole)
        if not whole and len(data) >= _LONGEST_LINE:
            whole = data  # Dropped: without an end in sight it would be read again and again.
        self._offset += len(whole)
        self._last_read = whole[-_FINGERPRINT:] or self._last_read
        return b"".join(blocks)

    def _whole(self, data: bytes) -> bytes:
        """The data up to its last line end."""
        return data[: max(map(data.rfind, self._ends)) + 1]

    def _was_rewritten(self) -> bool:
        """Whether what was read last is gone, even if the file has grown longer since."""
        if os.fstat(self._descriptor).st_size < self._offset:
            return True
        start = self._offset - len(self._last_read)
        return os.pread(self._descriptor, len(self._last_read), start) != self._last_read


def near_end(path: Path, limit: int) -> int:
    """Where the first line begins that lies wholly in the last ``limit`` bytes of a file."""
    try:
        with files.open_regular(path) as handle:
            start = max(0, handle.seek(0, os.SEEK_END) - limit)
            handle.seek(start)
            return start + len(handle.readline()) if start else 0
    except OSError:
        return 0


def last_lines(path: Path, count: int, limit: int = 256 * 1024) -> list[bytes]:
    """The last ``count`` lines of a file, reading at most ``limit`` bytes from its end."""
    try:
        with files.open_regular(path) as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - limit))
            data = handle.read(limit)
    except OSError:
        return []
    return data.splitlines()[-count:]
