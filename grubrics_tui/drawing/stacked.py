"""Stacked columns over time: how the parts of a step share its seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grubrics_tui.drawing.scale import Range, tick_labels, tick_room, ticks
from grubrics_tui.drawing.spans import Cell, Grid, Row, blank, merge, write

_EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Part:
    """One kind of share: its name, colour and the letter that stands for it without colour."""

    name: str
    ink: str
    letter: str


@dataclass(frozen=True)
class Stack:
    """One column: its place on the x axis and the size of each part."""

    x: int
    sizes: tuple[float, ...]


def render(
    stacks: Sequence[Stack],
    parts: Sequence[Part],
    width: int,
    height: int,
    *,
    letters: bool = False,
) -> list[Row]:
    """The columns in ``height`` rows; more stacks than room are averaged, never dropped."""
    if not stacks or width < 12 or height < 3:
        return [[] for _ in range(height)]
    top = max(sum(stack.sizes) for stack in stacks) * 1.04 or 1.0
    y = Range(0.0, top)
    at_most = tick_room(height - 1)
    levels = ticks(y, at_most)
    labels = tick_labels(y, levels, at_most)
    gutter = max(map(len, labels)) + 1
    picture = blank(width, height)
    body = [row[gutter:] for row in picture[:-1]]
    for level, label in zip(levels, labels, strict=True):
        row = len(body) - 1 - y.place(level, len(body))
        write(picture[row], 0, label.rjust(gutter - 1), "axis")
        if not letters:
            write(body[row], 0, "┈" * len(body[row]), "grid")
    shown = fold(stacks, width - gutter)
    columns = [_column(stack, parts, len(body), top, letters) for stack in shown]
    places = layout(len(shown), width - gutter)
    for place, index in enumerate(places):
        if index is not None:
            _place(body, place, columns[index])
    _draw_x_axis(picture[-1], stacks, gutter, len(places))
    return [merge(row) for row in picture]


def fold(stacks: Sequence[Stack], room: int) -> list[Stack]:
    """At most ``room`` stacks: neighbours averaged when there are more."""
    size = -(-len(stacks) // max(1, room))
    groups = [stacks[start : start + size] for start in range(0, len(stacks), size)]
    return [
        Stack(
            group[0].x,
            tuple(sum(sizes) / len(group) for sizes in zip(*(s.sizes for s in group), strict=True)),
        )
        for group in groups
    ]


def layout(count: int, room: int) -> list[int | None]:
    """Which stack each cell of the x axis shows: bars with gaps while they fit, else all filled."""
    each = min(7, room // count)
    if each < 3:
        return [place * count // room for place in range(room)]
    bar: list[int | None] = []
    for index in range(count):
        bar += [*([index] * (each - 1)), None]
    return bar[:-1]


def _column(
    stack: Stack, parts: Sequence[Part], height: int, top: float, letters: bool
) -> list[Cell]:
    """The cells of one column from below; a cell between two parts shows both, to an eighth."""
    bounds = _bounds(stack, height * 8, top)
    cells = []
    for row in range(height):
        shares = _shares(bounds, row * 8)
        if not shares:
            break
        cells.append(_letter(shares, parts) if letters else _cell(shares, parts))
    return cells


def _bounds(stack: Stack, eighths: int, top: float) -> list[tuple[int, int]]:
    """Start and end of each part, in eighths of a cell from below."""
    bounds, total = [], 0.0
    for size in stack.sizes:
        start = round(total / top * eighths)
        total += size
        bounds.append((start, round(total / top * eighths)))
    return bounds


def _shares(bounds: list[tuple[int, int]], base: int) -> list[tuple[int, int]]:
    """``(eighths, part)`` inside the cell that starts at ``base``, from below."""
    shares = []
    for index, (start, end) in enumerate(bounds):
        inside = min(end, base + 8) - max(start, base)
        if inside > 0:
            shares.append((inside, index))
    return shares


def _cell(shares: list[tuple[int, int]], parts: Sequence[Part]) -> Cell:
    filled = sum(size for size, _ in shares)
    if filled < 8:
        biggest = max(shares)[1]
        return Cell(_EIGHTHS[filled], parts[biggest].ink)
    if len(shares) == 1:
        return Cell("█", parts[shares[0][1]].ink)
    lower, upper = sorted(sorted(shares, reverse=True)[:2], key=lambda share: share[1])
    cut = max(1, min(7, round(lower[0] * 8 / (lower[0] + upper[0]))))
    return Cell(_EIGHTHS[cut], parts[lower[1]].ink, parts[upper[1]].ink)


def _letter(shares: list[tuple[int, int]], parts: Sequence[Part]) -> Cell:
    part = parts[max(shares)[1]]
    return Cell(part.letter, part.ink)


def _place(body: Grid, column: int, cells: list[Cell]) -> None:
    for row, cell in enumerate(cells):
        target = body[len(body) - 1 - row][column]
        target.char, target.ink, target.paper = cell.char, cell.ink, cell.paper


def _draw_x_axis(row: list[Cell], stacks: Sequence[Stack], gutter: int, used: int) -> None:
    write(row, gutter, f"{stacks[0].x}", "axis")
    label = f"step {stacks[-1].x}"
    if len(stacks) > 1:
        first = gutter + len(f"{stacks[0].x}") + 1
        write(row, max(first, min(len(row), gutter + used) - len(label)), label, "axis")
