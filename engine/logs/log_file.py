"""The log file that is looked at: its bytes, sorted places in it, and what becomes of it."""

from __future__ import annotations

import os
import weakref
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.base import files

BLOCK = 256 * 1024
LONGEST = 64 * BLOCK
"""A longer stretch without a newline is cut into lines, so that nothing reads without end."""

_CACHED_BLOCKS = 24


@dataclass(frozen=True)
class Line:
    """Bytes ``start`` to ``end`` of a file, the line end included."""

    start: int
    end: int


class LogFile:
    """An open file that stays readable whatever becomes of its name.

    ``size`` is what was told last (``grow``), so that every answer fits together. A line ends at a
    newline, and at a multiple of ``LONGEST`` when there is none in the ``LONGEST`` bytes before it:
    so it is the same line from whichever of its bytes one asks.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._opened_by: LogFile | None = None

    @classmethod
    def open(cls, path: Path) -> LogFile:
        """Raises OSError for what cannot be read at any place: no file, a pipe, a device."""
        file = cls(files.open_descriptor(path))
        weakref.finalize(file, os.close, file.descriptor)
        return file

    def twin(self) -> LogFile:
        """The same open file for another thread: they share no cache."""
        other = LogFile(self.descriptor)
        other._opened_by = self  # Whose end would close it.
        return other

    def grow(self, size: int) -> None:
        """The file has ``size`` bytes now."""
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end``; fewer where the file lost them."""
        try:
            return os.pread(self.descriptor, max(0, min(end, self.size) - start), start)
        except OSError:
            return b""

    def block(self, number: int) -> bytes:
        """Bytes ``number * BLOCK`` and on, at most ``BLOCK`` of them."""
        start = number * BLOCK
        length = min(BLOCK, self.size - start)
        data = self._blocks.get(number)
        if data is None or len(data) < length:
            data = self._blocks[number] = self.read(start, start + BLOCK)
            if len(self._blocks) > _CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return data

    def line_start(self, offset: int) -> int:
        """Where the line begins that holds the byte at ``offset``."""
        cut = offset // LONGEST * LONGEST
        found = self._last_newline(cut, offset)
        if found is None and cut:
            found = self._last_newline(cut - LONGEST, cut)
        return cut if found is None else found + 1

    def line_end(self, start: int) -> int:
        """Where the line ends that begins at ``start``: the start of the next one."""
        cut = start // LONGEST * LONGEST + LONGEST
        found = self._first_newline(start, cut)
        if found is None and start > cut - LONGEST and cut < self.size:
            cut += LONGEST
            found = self._first_newline(cut - LONGEST, cut)
        return min(cut, max(self.size, start + 1)) if found is None else found + 1

    def first_line(self, offset: int) -> int:
        """The first start of a line at or after ``offset``; the size when there is none."""
        if offset >= self.size:
            return self.size
        start = self.line_start(offset)
        return start if start == offset else self.line_end(start)

    def forward(self, offset: int) -> Iterator[Line]:
        """The lines from the one that holds ``offset``, downwards."""
        start = self.line_start(max(0, offset)) if offset < self.size else self.size
        while start < self.size:
            line = Line(start, self.line_end(start))
            yield line
            start = line.end

    def backward(self, offset: int) -> Iterator[Line]:
        """The lines that end at or before ``offset``, the nearest first."""
        end = self.line_start(offset) if offset < self.size else self.size
        while end > 0:
            line = Line(self.line_start(end - 1), end)
            yield line
            end = line.start

    def _first_newline(self, start: int, end: int) -> int | None:
        """The first newline from ``start`` to before ``end``, which is the end of a block."""
        for number in range(start // BLOCK, min(end, self.size + BLOCK - 1) // BLOCK):
            base = number * BLOCK
            found = self.block(number).find(b"\n", max(0, start - base))
            if found >= 0:
                return base + found
        return None

    def _last_newline(self, start: int, end: int) -> int | None:
        """The last newline from ``start``, which is the start of a block, to before ``end``."""
        for number in range((end - 1) // BLOCK, start // BLOCK - 1, -1):
            base = number * BLOCK
            found = self.block(number).rfind(b"\n", 0, end - base)
            if found >= 0:
                return base + found
        return None


class Offsets:
    """Sorted byte offsets: 8 bytes each."""

    def __init__(self) -> None:
        self._all = array("q")

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def replace(self, start: int, end: int, found: Sequence[int]) -> slice:
        """From ``start`` to before ``end`` there are exactly ``found``, which is sorted.

        Answers the places of those that they replace.
        """
        place = slice(bisect_left(self._all, start), bisect_left(self._all, end))
        self._all[place] = array("q", found)
        return place

    def at_or_after(self, offset: int) -> int | None:
        here = self._all
        place = bisect_left(here, offset)
        return here[place] if place < len(here) else None

    def before(self, offset: int) -> int | None:
        here = self._all
        place = bisect_left(here, offset)
        return here[place - 1] if place else None

    def count_before(self, offset: int) -> int:
        """How many lie before ``offset``."""
        return bisect_left(self._all, offset)

    def any_in(self, start: int, end: int) -> bool:
        """Whether one lies from ``start`` to before ``end``."""
        first = self.at_or_after(start)
        return first is not None and first < end


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
