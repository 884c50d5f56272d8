"""A log file of any size: its lines, sorted offsets in it, and a follower of its changes."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base import files
from engine.base.follow import RESTARTS, Change, FileFollower, OpenFile

BLOCK = 256 * 1024
LONGEST = 64 * BLOCK
"""A longer stretch without a newline is cut into lines, so that every read is bounded."""

_CACHED_BLOCKS = 24


@dataclass(frozen=True)
class Line:
    """Bytes ``start`` to ``end`` of a file, the line end included."""

    start: int
    end: int


class LogFile:
    """An open file that stays readable whatever happens to its name.

    ``size`` changes only in ``grow``, so that all results are consistent. A line ends at a newline,
    and at a multiple of ``LONGEST`` when there is none in the ``LONGEST`` bytes before it: so it is
    the same line for each of its bytes.
    """

    def __init__(self, descriptor: int, owner: OpenFile | None = None) -> None:
        """``owner`` closes the descriptor when it is deleted: it lives as long as this object."""
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._owner = owner
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    @classmethod
    def open(cls, path: Path) -> LogFile:
        """Raises OSError for what cannot be read at any offset: no file, a pipe, a device."""
        file = OpenFile(files.open_descriptor(path))
        return cls(file.descriptor, file)

    def copy(self) -> LogFile:
        """The same open file for another thread: they share no cache."""
        return LogFile(self.descriptor, self._owner)

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
        """At most ``BLOCK`` bytes from ``number * BLOCK`` on."""
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
        """Where the line at ``offset`` begins."""
        cut = offset // LONGEST * LONGEST
        newline = self._last_newline(cut, offset)
        if newline is None and cut:
            newline = self._last_newline(cut - LONGEST, cut)
        return cut if newline is None else newline + 1

    def line_end(self, start: int) -> int:
        """Where the line ends that begins at ``start``: the start of the next one."""
        cut = start // LONGEST * LONGEST + LONGEST
        newline = self._first_newline(start, cut)
        if newline is None and start > cut - LONGEST and cut < self.size:
            cut += LONGEST
            newline = self._first_newline(cut - LONGEST, cut)
        return min(cut, max(self.size, start + 1)) if newline is None else newline + 1

    def first_line(self, offset: int) -> int:
        """The first start of a line at or after ``offset``; the size when there is none."""
        if offset >= self.size:
            return self.size
        start = self.line_start(offset)
        return start if start == offset else self.line_end(start)

    def forward(self, offset: int) -> Iterator[Line]:
        """The lines from the one at ``offset`` on."""
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
            index = self.block(number).find(b"\n", max(0, start - base))
            if index >= 0:
                return base + index
        return None

    def _last_newline(self, start: int, end: int) -> int | None:
        """The last newline from ``start``, which is the start of a block, to before ``end``."""
        for number in range((end - 1) // BLOCK, start // BLOCK - 1, -1):
            base = number * BLOCK
            index = self.block(number).rfind(b"\n", 0, end - base)
            if index >= 0:
                return base + index
        return None


class Offsets:
    """Sorted byte offsets: 8 bytes each."""

    def __init__(self) -> None:
        self._all = array("q")

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def replace(self, start: int, end: int, offsets: Sequence[int]) -> slice:
        """Replace those from ``start`` to before ``end`` by ``offsets``, which are sorted.

        Returns the indices of those that were replaced.
        """
        replaced = slice(bisect_left(self._all, start), bisect_left(self._all, end))
        self._all[replaced] = array("q", offsets)
        return replaced

    def at_or_after(self, offset: int) -> int | None:
        index = bisect_left(self._all, offset)
        return self._all[index] if index < len(self._all) else None

    def before(self, offset: int) -> int | None:
        index = bisect_left(self._all, offset)
        return self._all[index - 1] if index else None

    def count_before(self, offset: int) -> int:
        """How many are before ``offset``."""
        return bisect_left(self._all, offset)

    def any_in(self, start: int, end: int) -> bool:
        """Whether one is from ``start`` to before ``end``."""
        first = self.at_or_after(start)
        return first is not None and first < end


@dataclass(frozen=True)
class LogUpdate:
    """What one poll found. ``file`` is a new object when what was read of the last one is void."""

    change: Change
    file: LogFile | None = None
    size: int = 0


class LogFollower:
    """Polls a log file by name, as ``FileFollower`` does.

    A rotated log is left for the file that took its name. A deleted one stays readable, and its
    writer may still append: it is followed until another file has its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._file: LogFile | None = None

    def poll(self) -> LogUpdate:
        """What happened since the last poll; cheap when nothing did."""
        change = self._follower.poll()
        source = self._follower.file
        if source is None:
            return LogUpdate("")
        size = source.size()
        if change in RESTARTS:
            self._file = LogFile(source.descriptor, source)
        if change:
            source.read_to(size)
        return LogUpdate(change, self._file, size)
