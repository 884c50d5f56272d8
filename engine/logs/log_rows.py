"""What a log view shows as one row: a line, or many that say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from engine.history.offsets import Offsets
from engine.logs.log_file import BLOCK, Line, LogFile
from engine.logs.log_lines import bar_in, split_source

_KEY_BYTES = 16 * 1024

Key = tuple[int, bytes]


@dataclass(frozen=True)
class Row:
    """``count`` lines from ``start`` to ``end``; ``shown`` is the one that stands for them."""

    start: int
    end: int
    shown: Line
    count: int = 1


class Lines(Protocol):
    """Lines of a file in order: all of them, or chosen ones."""

    def forward(self, offset: int) -> Iterator[Line]: ...

    def backward(self, offset: int) -> Iterator[Line]: ...


class ChosenLines:
    """The lines that begin at the given offsets."""

    def __init__(self, file: LogFile, starts: Offsets) -> None:
        self._file, self._starts = file, starts

    def forward(self, offset: int) -> Iterator[Line]:
        start = self._starts.at_or_after(offset)
        while start is not None:
            yield Line(start, self._file.line_end(start))
            start = self._starts.at_or_after(start + 1)

    def backward(self, offset: int) -> Iterator[Line]:
        start = self._starts.before(offset)
        while start is not None:
            yield Line(start, self._file.line_end(start))
            start = self._starts.before(start)


class Rows:
    """Rows of a file, folded: lines in a row that are equal, or that redraw one progress bar.

    A fold never reaches over the block its first line begins in: so the rows are the same from
    wherever they are asked for, and a row costs no more than a block.
    """

    def __init__(self, file: LogFile, lines: Lines | None = None, *, folded: bool = True) -> None:
        self._file, self._lines, self._folded = file, lines or file, folded

    def forward(self, offset: int, count: int) -> list[Row]:
        """At most ``count`` rows from the one that begins at ``offset``."""
        return list(islice(self._rows(self._lines.forward(offset), _joined_below), count))

    def backward(self, offset: int, count: int) -> list[Row]:
        """At most ``count`` rows that end at or before ``offset``, in the order of the file."""
        return list(islice(self._rows(self._lines.backward(offset), _joined_above), count))[::-1]

    def holding(self, offset: int) -> Row | None:
        """The row of the line at ``offset``; where that line is not shown, the next one."""
        line = next(self._lines.forward(self._file.line_start(offset)), None)
        if line is None:
            return next(iter(self.backward(self._file.size, 1)), None)
        if not self._folded:
            return Row(line.start, line.end, line)
        start, key = line.start, self._key(line)
        for above in self._lines.backward(line.start):
            if self._key(above) != key:
                break
            start = above.start
        return self.forward(start, 1)[0]

    def _rows(self, lines: Iterable[Line], join: Callable[[Row, Line], Row]) -> Iterator[Row]:
        row: Row | None = None
        before: Key | None = None
        for line in lines:
            key = self._key(line) if self._folded else None
            if row is not None and key is not None and key == before:
                row = join(row, line)
                continue
            if row is not None:
                yield row
            row, before = Row(line.start, line.end, line), key
        if row is not None:
            yield row

    def _key(self, line: Line) -> Key:
        """The same for lines of one block that are shown as one row."""
        number, length = line.start // BLOCK, line.end - line.start
        if length > _KEY_BYTES:
            return number, b"%d" % line.start
        inside = line.start - number * BLOCK
        raw = self._file.block(number)[inside : inside + length]
        if len(raw) < length:
            raw = self._file.read(line.start, line.end)
        text = raw.rstrip(b"\r\n")
        return number, _progress(text) or text


def _progress(text: bytes) -> bytes | None:
    """What a progress bar is called, and by whom; None for other lines."""
    if b"%|" not in text:
        return None
    source, rest = split_source(text)
    name = bar_in(rest)
    return None if name is None else b"%" + source + b"%" + name


def _joined_below(row: Row, line: Line) -> Row:
    return Row(row.start, line.end, line, row.count + 1)


def _joined_above(row: Row, line: Line) -> Row:
    return Row(line.start, row.end, row.shown, row.count + 1)
