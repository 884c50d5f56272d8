"""The rows of a log view: lines, or runs of lines that are folded into one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from engine.logs.log_file import BLOCK, Line, LogFile, Offsets
from engine.logs.log_lines import bar_in, split_source

_KEY_BYTES = 16 * 1024

Key = tuple[int, bytes]


@dataclass(frozen=True)
class Row:
    """``count`` lines from ``start`` to ``end``, of which ``shown`` is displayed."""

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

    A fold ends with the block in which its first line begins. So the rows do not depend on where
    reading starts, and a row costs at most a block.
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
        """The row of the line at ``offset``; if that line is not shown, the next one."""
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
    """The name of a progress bar with its source; None for other lines."""
    if b"%|" not in text:
        return None
    source, message = split_source(text)
    name = bar_in(message)
    return None if name is None else b"%" + source + b"%" + name


def _joined_below(row: Row, line: Line) -> Row:
    return Row(row.start, line.end, line, row.count + 1)


def _joined_above(row: Row, line: Line) -> Row:
    return Row(line.start, row.end, row.shown, row.count + 1)


HeightOf = Callable[[Row], int]


class LogWindow:
    """The visible rows of a file of any size. Positions are byte offsets, so they never move.

    While ``following``, the last row stays visible as the file grows.
    """

    def __init__(self, rows: Rows, size: int) -> None:
        self.rows, self.size = rows, size
        self.top = self.cursor = size
        self.following = True
        self.fills_upwards = True
        """The last row is at the bottom; of the first one, only the end may be visible."""

    def turn_to(self, rows: Rows) -> None:
        """Show other rows of the same file, around the cursor."""
        self.rows = rows

    def visible(self, height: int, height_of: HeightOf) -> list[Row]:
        """The visible rows; ``height_of`` returns the number of screen lines of a row."""
        shown = self._at_end(height, height_of) if self.following else []
        if not shown:
            shown = self._around_cursor(height, height_of)
        if shown:
            self.top = shown[0].start
            if self.following:
                self.cursor = shown[-1].start
        return shown

    def move(self, count: int) -> None:
        """Move the cursor by rows; reaching the end follows it again."""
        if count < 0:
            above = self.rows.backward(self.cursor, -count)
            self.cursor = above[0].start if above else self.cursor
            self.following = self.following and not above
        else:
            below = self.rows.forward(self.cursor, count + 1)
            self.following = len(below) <= count or below[-1].end >= self.size
            self.cursor = below[-1].start if below else self.cursor

    def go_to(self, offset: int, height: int) -> Row | None:
        """Move the cursor to the row of the line at ``offset``, with earlier rows above it."""
        row = self.rows.holding(min(max(0, offset), self.size))
        if row is None:
            return None
        self.following, self.cursor = False, row.start
        above = self.rows.backward(row.start, height // 3)
        self.top = above[0].start if above else row.start
        return row

    def go_to_end(self) -> None:
        self.following = True

    def _at_end(self, height: int, height_of: HeightOf) -> list[Row]:
        return self._upwards(self.rows.backward(self.size, height), height, height_of)

    def _around_cursor(self, height: int, height_of: HeightOf) -> list[Row]:
        self.top = min(self.top, self.cursor)
        ending = self._at_end(height, height_of)
        if not ending or self.top >= ending[0].start:
            return ending
        self.fills_upwards = False
        shown = _fitting(self.rows.forward(self.top, height), height, height_of)
        if shown and shown[-1].start < self.cursor:
            above = self.rows.backward(self.cursor, height)
            return self._upwards(above + self.rows.forward(self.cursor, 1), height, height_of)
        return shown

    def _upwards(self, rows: list[Row], height: int, height_of: HeightOf) -> list[Row]:
        """The last of ``rows`` that fill the height; of the first one, a part may be cut."""
        self.fills_upwards = True
        count = len(_fitting(reversed(rows), height, height_of))
        lines = sum(map(height_of, rows[len(rows) - count :]))
        return rows[-(count + 1 if lines < height else count) :]


def _fitting(rows: Iterable[Row], height: int, height_of: HeightOf) -> list[Row]:
    """The first rows that fit together, one at least."""
    fitting: list[Row] = []
    for row in rows:
        height -= height_of(row)
        if height < 0 and fitting:
            break
        fitting.append(row)
    return fitting
