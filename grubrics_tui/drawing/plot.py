"""A line chart with bands, marks and round ticks; in braille, or in ASCII where need be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grubrics_tui.drawing.braille import Canvas, Point, resample, trace
from grubrics_tui.drawing.scale import Range, around, tick_labels, tick_room, ticks
from grubrics_tui.drawing.spans import Cell, Grid, Row, blank, merge, write

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII_LINES = "*+x"


@dataclass(frozen=True)
class Line:
    """Values along x. ``spread`` is the half-width of a band around them, one per point."""

    points: Sequence[Point]
    ink: str
    spread: Sequence[float | None] | None = None
    band_ink: str = "band"

    def edges(self) -> tuple[list[Point], list[Point]] | None:
        """The band's lower and upper edge, broken where value or spread is missing."""
        if self.spread is None:
            return None
        pairs = list(zip(self.points, self.spread, strict=True))
        return [_shift(point, half, -1) for point, half in pairs], [
            _shift(point, half, 1) for point, half in pairs
        ]


@dataclass(frozen=True)
class Marks:
    """Single values that are not part of a line, such as validation scores."""

    points: Sequence[Point]
    ink: str
    glyph: str = "◆"


@dataclass(frozen=True)
class Plot:
    """What to draw. Without ``y`` the range follows the data."""

    lines: tuple[Line, ...]
    marks: tuple[Marks, ...] = ()
    y: Range | None = None
    x_label: str = "step {}"
    """How the last place is written on the x axis."""

    @property
    def is_empty(self) -> bool:
        return not any(value is not None for value in _values(self))


def render(plot: Plot, width: int, height: int, *, ascii_only: bool = False) -> list[Row]:
    """The chart in ``height`` rows of ``width`` cells. Empty rows when there is no room or data."""
    if plot.is_empty or width < 12 or height < 3:
        return [[] for _ in range(height)]
    x, y = _x_range(plot), plot.y or around(_values(plot))
    at_most = tick_room(height - 1)
    levels = ticks(y, at_most)
    labels = tick_labels(y, levels, at_most)
    gutter = max(map(len, labels)) + 1
    picture = blank(width, height)
    body = [row[gutter:] for row in picture[:-1]]
    _draw_levels(picture, body, levels, labels, y, gutter, ascii_only)
    for line in plot.lines:
        _draw_band(body, line, x, y, ascii_only)
    for index, line in enumerate(plot.lines):
        _draw_line(body, line, x, y, _ASCII_LINES[index % 3] if ascii_only else None)
    for marks in plot.marks:
        _draw_marks(body, marks, x, y, ascii_only)
    _draw_x_axis(picture[-1], x, gutter, plot.x_label)
    return [merge(row) for row in picture]


def _shift(point: Point, half: float | None, sign: int) -> Point:
    place, value = point
    return place, None if value is None or half is None else value + sign * half


def _values(plot: Plot) -> Iterable[float]:
    for line in plot.lines:
        for points in line.edges() or ():
            yield from (value for _, value in points if value is not None)
        yield from (value for _, value in line.points if value is not None)
    for marks in plot.marks:
        yield from (value for _, value in marks.points if value is not None)


def _x_range(plot: Plot) -> Range:
    places = [place for line in plot.lines for place, _ in line.points]
    places += [place for marks in plot.marks for place, value in marks.points if value is not None]
    low, high = min(places), max(places)
    return Range(low, high if high > low else low + 1)


def _draw_levels(
    picture: Grid,
    body: Grid,
    levels: list[float],
    labels: list[str],
    y: Range,
    gutter: int,
    ascii_only: bool,
) -> None:
    for level, label in zip(levels, labels, strict=True):
        row = len(body) - 1 - y.place(level, len(body))
        write(picture[row], 0, label.rjust(gutter - 1), "axis")
        if not ascii_only:
            write(body[row], 0, "┈" * len(body[row]), "grid")


def _draw_band(body: Grid, line: Line, x: Range, y: Range, ascii_only: bool) -> None:
    edges = line.edges()
    if edges is None:
        return
    width, eighths = len(body[0]), len(body) * 8
    lows, highs = (resample(edge, x, width) for edge in edges)
    for column, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low is not None and high is not None:
            bottom, top = (y.place(value, eighths + 1) for value in (low, high))
            _fill(body, column, bottom, top, line.band_ink, ascii_only)


def _fill(body: Grid, column: int, bottom: int, top: int, ink: str, ascii_only: bool) -> None:
    """Colour a column from ``bottom`` to ``top``, in eighths of a cell counted from below."""
    for row in range(bottom // 8, -(-top // 8)):
        cell = body[len(body) - 1 - row][column]
        start, end = max(0, bottom - row * 8), min(8, top - row * 8)
        if ascii_only:
            cell.char, cell.ink = ":", ink
        elif start == 0:
            cell.char, cell.ink, cell.paper = _EIGHTHS[end], ink, ""
        elif end == 8:
            cell.char, cell.ink, cell.paper = _EIGHTHS[start], "surface", ink
        else:
            cell.char, cell.ink, cell.paper = "━", ink, ""


def _draw_line(body: Grid, line: Line, x: Range, y: Range, glyph: str | None) -> None:
    canvas = Canvas(len(body[0]), len(body))
    trace(canvas, line.points, x, y)
    for column, row, dots in canvas.cells():
        cell = body[row][column]
        cell.paper = _behind(cell, line.band_ink)
        cell.char, cell.ink = glyph or dots, line.ink


def _behind(cell: Cell, band_ink: str) -> str:
    """The colour that most of a band's cell has, kept as paper under the line."""
    if cell.char not in _EIGHTHS:
        return cell.paper
    if cell.paper == band_ink:
        return band_ink if cell.char in _EIGHTHS[:5] else ""
    return band_ink if cell.ink == band_ink and cell.char in _EIGHTHS[4:] else ""


def _draw_marks(body: Grid, marks: Marks, x: Range, y: Range, ascii_only: bool) -> None:
    for place, value in marks.points:
        if value is not None:
            row = len(body) - 1 - y.place(value, len(body))
            cell = body[row][x.place(place, len(body[0]))]
            cell.paper = _behind(cell, "band")
            cell.char, cell.ink = ("o" if ascii_only else marks.glyph), marks.ink


def _draw_x_axis(row: list[Cell], x: Range, gutter: int, label: str) -> None:
    width = len(row) - gutter
    start, end = f"{x.low:g}", label.format(f"{x.high:g}")
    write(row, gutter, start, "axis")
    write(row, len(row) - len(end), end, "axis")
    middle = round((x.low + x.high) / 2)
    if width > 40 and x.high - x.low >= 4:
        text = f"{middle:g}"
        write(row, gutter + x.place(middle, width) - len(text) // 2, text, "axis")
