"""Stacked columns over time: how the parts of a step share its seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.base.ticks import Range, axis_of, step_between
from engine.run.history.columns import Floats, Ints
from grubrics_tui.drawing.axis import UNITS, XAxis, format_place, gutter_of
from grubrics_tui.drawing.picture import EIGHTHS, Picture
from grubrics_tui.drawing.spans import Row

_WIDEST = 7
_AIR = 1.04
"""Room above the tallest column."""


@dataclass(frozen=True)
class Part:
    """One kind of share: its name, its color, and its letter for screens without color."""

    name: str
    ink: str
    letter: str


@dataclass(frozen=True, eq=False)
class Stacks:
    """A column for each ascending ``x``: ``sizes[i, j]`` is the size of part ``j`` at ``x[i]``."""

    parts: tuple[Part, ...]
    x: Floats
    sizes: NDArray[np.float64]

    def inside(self, span: Range) -> Stacks:
        first = int(np.searchsorted(self.x, span.low, side="left"))
        last = int(np.searchsorted(self.x, span.high, side="right"))
        return Stacks(self.parts, self.x[first:last], self.sizes[first:last])

    def folded(self, room: int) -> Stacks:
        """At most ``room`` columns: neighbors averaged when there are more."""
        size = -(-self.x.size // max(1, room))
        if size <= 1:
            return self
        starts = np.arange(0, self.x.size, size)
        counts = np.diff(np.append(starts, self.x.size))
        means = np.add.reduceat(self.sizes, starts, axis=0) / counts[:, None]
        return Stacks(self.parts, self.x[starts], means)


class KeptStacks:
    """Checks whether a picture is still valid after columns were added.

    In a long run each column of the picture is the mean of hundreds of steps: a new step moves the
    last one by less than an eighth of a cell.
    """

    def __init__(self, stacks: Stacks, room: int, rows: int) -> None:
        self._room, self._rows = room, rows
        self._each, self._start = self._last(stacks)
        self._size = stacks.x.size
        self._tallest = float(stacks.sizes.sum(axis=1).max())
        self._ends = self._ends_of(stacks)

    def hold(self, stacks: Stacks) -> bool:
        """Whether ``stacks`` have the same picture as the columns before."""
        fresh = stacks.sizes[self._size - 1 :]  # The last one may have gained a part.
        return (
            stacks.x.size >= self._size
            and self._last(stacks) == (self._each, self._start)
            and not bool((fresh.sum(axis=1) > self._tallest).any())
            and np.array_equal(self._ends_of(stacks), self._ends)
        )

    def _last(self, stacks: Stacks) -> tuple[int, int]:
        """How many stacks share a column of the picture, and where the last group begins."""
        per_column = -(-stacks.x.size // max(1, self._room))
        return per_column, (stacks.x.size - 1) // per_column * per_column

    def _ends_of(self, stacks: Stacks) -> Ints:
        last = stacks.sizes[self._start :]
        mean = np.add.reduceat(last, [0], axis=0) / len(last)
        return _ends(mean, self._tallest * _AIR or 1.0, self._rows)


def drawn(
    stacks: Stacks,
    width: int,
    height: int,
    *,
    axis: XAxis = "step",
    cursor: float | None = None,
    letters: bool = False,
) -> tuple[list[Row], KeptStacks | None]:
    """Return ``height`` rows of columns, each part above the one before it, and what keeps the rows
    valid; None if nothing is drawn.

    With ``letters`` a part is drawn as its letter instead of in its color.
    """
    if not stacks.x.size or width < 12 or height < 3:
        return [[] for _ in range(height)], None
    top = float(stacks.sizes.sum(axis=1).max()) * _AIR or 1.0
    y = axis_of(Range(0.0, top), height - 1)
    picture = Picture(width, height)
    gutter = gutter_of(y)
    rows, room = height - 1, width - gutter
    for level, label in zip(y.levels, y.labels, strict=True):
        row = rows - 1 - y.span.place(level, rows)
        picture.write(row, 0, label.rjust(gutter - 1), "axis")
        if not letters:
            picture.write(row, gutter, "┈" * room, "grid")
    shown = stacks.folded(room)
    column = layout(shown.x.size, room)
    _draw_columns(picture, gutter, shown, column, top, letters)
    _draw_x_axis(picture, gutter, shown, column, axis, folded=shown is not stacks)
    if cursor is not None:
        _draw_cursor(picture, gutter, shown, column, cursor, letters)
    return picture.rows(), KeptStacks(stacks, room, rows)


def x_of(stacks: Stacks, width: int, height: int, cell: int) -> float | None:
    """The x of the column that ``drawn`` shows in a cell; None where it draws nothing."""
    if not stacks.x.size or width < 12 or height < 3:
        return None
    top = float(stacks.sizes.sum(axis=1).max()) * _AIR or 1.0
    gutter = gutter_of(axis_of(Range(0.0, top), height - 1))
    shown = stacks.folded(width - gutter)
    column = layout(shown.x.size, width - gutter)
    index = column[max(0, min(cell - gutter, column.size - 1))]
    # Right of the column is a gap.
    return float(shown.x[index if index >= 0 else column[max(0, cell - gutter - 1)]])


def layout(count: int, room: int) -> Ints:
    """Which stack each cell of the x axis shows, -1 for none: bars with gaps while they fit."""
    width = min(_WIDEST, room // count)
    if width < 3:
        return np.arange(room) * count // room
    stacks = np.repeat(np.arange(count), width)
    stacks[width - 1 :: width] = -1
    return stacks[:-1]


def _draw_columns(
    picture: Picture, gutter: int, stacks: Stacks, column: Ints, top: float, letters: bool
) -> None:
    """Draw every cell from its two largest parts, with a block character at their border."""
    rows = picture.height - 1
    ends = _ends(stacks.sizes, top, rows)
    starts = np.concatenate([np.zeros((ends.shape[0], 1), np.int64), ends[:, :-1]], axis=1)
    base = (np.arange(rows - 1, -1, -1) * 8)[:, None, None]
    # Eighths of the cell that each part fills: [row, stack, part].
    share = np.clip(np.minimum(ends, base + 8) - np.maximum(starts, base), 0, 8)
    filled = share.sum(axis=2)
    first = share.argmax(axis=2)
    without_first = share.copy()
    np.put_along_axis(without_first, first[:, :, None], 0, axis=2)
    second = np.where(without_first.max(axis=2) > 0, without_first.argmax(axis=2), first)
    lower, upper = np.minimum(first, second), np.maximum(first, second)
    inks = np.array([picture.color(part.ink) for part in stacks.parts], np.uint8)
    chars, papers = _blocks(share, filled, lower, upper)
    if letters:
        names = np.array([ord(part.letter) for part in stacks.parts], np.uint32)
        chars, lower, papers = names[first], first, np.zeros_like(papers)
    painted = (filled > 0)[:, column] & (column >= 0)
    target = (slice(0, rows), slice(gutter, gutter + column.size))
    for plane, values in (
        (picture.char, chars),
        (picture.ink, inks[np.where(filled < 8, first, lower)]),
        (picture.paper, np.where(papers, inks[upper], 0)),
    ):
        plane[target] = np.where(painted, values[:, column], plane[target])


def _ends(sizes: NDArray[np.float64], top: float, rows: int) -> Ints:
    """How high each part of each column reaches, in eighths of a cell."""
    return np.rint(np.cumsum(sizes, axis=1) / top * rows * 8).astype(np.int64)


def _blocks(
    share: Ints, filled: Ints, lower: Ints, upper: Ints
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """The block character of every cell, and whether its upper part is paper."""
    low = np.take_along_axis(share, lower[:, :, None], axis=2)[:, :, 0]
    high = np.take_along_axis(share, upper[:, :, None], axis=2)[:, :, 0]
    cut = np.clip(np.rint(low * 8 / np.maximum(1, low + high)), 1, 7).astype(np.int64)
    has_two = (filled == 8) & (lower != upper)
    return EIGHTHS[np.where(has_two, cut, filled)], has_two


def _draw_cursor(
    picture: Picture, gutter: int, stacks: Stacks, column: Ints, cursor: float, letters: bool
) -> None:
    """Draw a line in the free cells above the column at the cursor."""
    index = max(0, int(np.searchsorted(stacks.x, cursor, side="right")) - 1)
    cells = np.flatnonzero(column == index)
    if not cells.size:
        return
    middle = gutter + int(cells[cells.size // 2])
    free = np.isin(picture.char[:-1, middle], [ord(" "), ord("┈")])
    picture.char[:-1, middle][free] = ord("|" if letters else "│")
    picture.ink[:-1, middle][free] = picture.color("cursor")
    picture.write(picture.height - 1, middle, "^" if letters else "▲", "cursor")


def _draw_x_axis(
    picture: Picture, gutter: int, stacks: Stacks, column: Ints, axis: XAxis, *, folded: bool
) -> None:
    """Label the columns with round values of x; a ``folded`` column contains several steps."""
    row, free = picture.height - 1, 0
    picture.write(row, 0, UNITS[axis].rjust(gutter - 1), "axis")
    span = float(np.ptp(stacks.x)) + 1
    for x in _labeled(stacks.x, axis, max(2, column.size // 9), folded=folded):
        index = int(np.searchsorted(stacks.x, x, side="right")) - 1
        cells = np.flatnonzero(column == index)
        text = format_place(x, axis, span)
        start = max(gutter, gutter + round(cells.mean()) - len(text) // 2)
        if start >= free and start + len(text) <= picture.width:
            picture.write(row, start, text, "axis")
            free = start + len(text) + 2


def _labeled(x: Floats, axis: XAxis, at_most: int, *, folded: bool) -> list[float]:
    """The labeled values of x: round steps, or evenly spread ones."""
    if axis == "step" and x.size > at_most:
        interval = step_between(Range(float(x[0]), float(x[-1])), at_most)
        if folded:  # The column that begins at or before a round step contains it.
            multiples = np.arange(np.ceil(x[0] / interval), x[-1] // interval + 1).tolist()
            return [number * interval for number in multiples]
        # A round step may not be logged: the first step after it is labeled instead.
        multiple = np.floor(x / interval)
        before = np.concatenate([[np.ceil(x[0] / interval) - 1], multiple[:-1]])
        labeled: list[float] = x[multiple > before].tolist()
        return labeled
    spread: list[float] = x[:: max(1, x.size // at_most)].tolist()
    return spread
