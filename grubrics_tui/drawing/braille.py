"""Lines on a grid of braille dots, two wide and four high per character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grubrics_tui.drawing.scale import Range

Point = tuple[float, float | None]
"""A value at a place; None is a gap that the line must not bridge."""

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # [column][row from below]
_EMPTY = 0x2800


class Canvas:
    """Dots in a picture of ``width`` x ``height`` characters; dot (0, 0) is below left."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells: dict[tuple[int, int], int] = {}

    def dot(self, x: int, y: int) -> None:
        cell = (x >> 1, y >> 2)
        self._cells[cell] = self._cells.get(cell, 0) | _DOTS[x & 1][y & 3]

    def column(self, x: int, low: int, high: int) -> None:
        top = self.height * 4 - 1
        for y in range(low, min(high + 1, top) + 1):
            self.dot(x, y)

    def cells(self) -> Iterator[tuple[int, int, str]]:
        """``(column, row from the top, character)`` of every cell that holds a dot."""
        for (column, row), dots in self._cells.items():
            yield column, self.height - 1 - row, chr(_EMPTY + dots)


@dataclass
class _Fold:
    """All points that fall on one column of dots."""

    x: int
    first: int
    last: int
    low: int
    high: int


def trace(canvas: Canvas, points: Iterable[Point], x: Range, y: Range) -> None:
    """Draw a line. Every column shows its lowest and highest value, so no spike is lost.

    The line is two dots thick: one alone is hard to see.
    """
    previous: _Fold | None = None
    for fold in _folds(canvas, points, x, y):
        if fold is not None:
            canvas.column(fold.x, fold.low, fold.high)
            if previous is not None:
                _connect(canvas, previous, fold)
        previous = fold


def _folds(canvas: Canvas, points: Iterable[Point], x: Range, y: Range) -> Iterator[_Fold | None]:
    """Points gathered by column of dots, None where the line is broken."""
    current: _Fold | None = None
    for place, value in points:
        if value is None:
            if current is not None:
                yield current
                current = None
            yield None
            continue
        column, row = x.place(place, canvas.width * 2), y.place(value, canvas.height * 4)
        if current is not None and current.x == column:
            current.last = row
            current.low, current.high = min(current.low, row), max(current.high, row)
            continue
        if current is not None:
            yield current
        current = _Fold(column, row, row, row, row)
    if current is not None:
        yield current


def _connect(canvas: Canvas, start: _Fold, end: _Fold) -> None:
    """A straight line from where one column ended to where the next begins, without holes."""
    run, rise = end.x - start.x, end.first - start.last
    before = start.last
    for offset in range(1, run + 1):
        now = start.last + round(rise * offset / run)
        low, high = sorted((before, now))
        middle = (low + high) // 2
        rising = now >= before
        canvas.column(start.x + offset - 1, *((low, middle) if rising else (middle + 1, high)))
        canvas.column(start.x + offset, *((middle + 1, high) if rising else (low, middle)))
        before = now


def resample(points: Sequence[Point], x: Range, columns: int) -> list[float | None]:
    """The value at each of ``columns`` places: the mean of its points, else between neighbours."""
    sums: list[list[float]] = [[] for _ in range(columns)]
    filled: list[float | None] = [None] * columns
    previous: tuple[int, float] | None = None
    for place, value in points:
        if value is None:
            previous = None
            continue
        column = x.place(place, columns)
        sums[column].append(value)
        if previous is not None:
            _interpolate(filled, previous, (column, value))
        previous = (column, value)
    means = [sum(values) / len(values) if values else None for values in sums]
    return [between if mean is None else mean for mean, between in zip(means, filled, strict=True)]


def _interpolate(
    filled: list[float | None], start: tuple[int, float], end: tuple[int, float]
) -> None:
    for column in range(start[0] + 1, end[0]):
        share = (column - start[0]) / (end[0] - start[0])
        filled[column] = start[1] + share * (end[1] - start[1])
