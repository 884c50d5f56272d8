"""A chart as SVG, inside a page or as a file of its own. The same chart gives the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

import numpy as np

from engine.base.ticks import Range, around, tick_labels, ticks
from engine.history.columns import Floats
from engine.reports.run_report.points import find_pieces, kept_points, missing_places
from engine.reports.run_report.report import Chart, Series

_WIDTH, _HEIGHT = 400, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 20, 10, 24
_COLUMNS = 2 * (_WIDTH - _LEFT - _RIGHT)
"""Columns of points: two for each unit, for screens that enlarge the chart."""
_LINE = 16
"""Height of a line of the legend."""
_CHARACTERS = 54
"""Of a line of text, which SVG does not wrap."""
_KEY = 11
"""Least distance between the letters at the ends of lines."""

_COLORS = (
    ("#1f6fbf", "#6cb2f5"),
    ("#b85c00", "#f2a24b"),
    ("#1d7f45", "#5fcf8d"),
    ("#8442b8", "#c695ef"),
    ("#c22f3d", "#ff8089"),
    ("#0b7a85", "#4fc9d4"),
    ("#80603a", "#cdaa7d"),
    ("#a8357f", "#f08cc9"),
)
"""On light and on dark paper, with a contrast of at least 3 to each."""


def _colored(index: int) -> str:
    """The rules for the lines, bands and letters of every series on light or dark paper."""
    return "".join(
        f".chart .s{number}{{stroke:{pair[index]}}}.chart .f{number}{{fill:{pair[index]}}}"
        for number, pair in enumerate(_COLORS, start=1)
    )


CHART_STYLE = (
    ".chart text{font:11px system-ui,sans-serif;fill:currentColor}"
    ".chart .grid{stroke:currentColor;stroke-opacity:.15}"
    ".chart .line{fill:none;stroke-width:1.4;stroke-linejoin:round;stroke-linecap:round}"
    ".chart .dot{stroke-width:4}"
    ".chart .band{stroke:none;fill-opacity:.18}.chart .gap{stroke-width:1.4}"
    ".chart .name{font-weight:700}.chart .key{font-weight:700;stroke:none}"
    f"{_colored(0)}"
    f"@media (prefers-color-scheme:dark){{{_colored(1)}}}"
    f"@media print{{{_colored(0)}}}"
)
"""Rules that a page with charts needs; a file of its own contains them."""
_FILE_STYLE = (
    ":root{color:#1c1f23;background:#fff}"
    "@media (prefers-color-scheme:dark){:root{color:#e4e7ea;background:#15181b}}"
    "@media print{:root{color:#000;background:#fff}}"
)


def draw_chart(chart: Chart) -> str:
    """The chart for a page: without name and legend, which stand beside it."""
    label = escape(describe_chart(chart))
    return (
        f'<svg class="chart" role="img" aria-label="{label}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(_plot(chart))}</svg>'
    )


def draw_file(chart: Chart) -> str:
    """The chart as a file of its own, with name, legend and notes."""
    name = wrap(chart.name, _CHARACTERS)
    top = _LINE * len(name) + 6
    below = [
        *_legend(chart.series),
        *((None, line) for n in chart.notes for line in wrap(n, _CHARACTERS)),
    ]
    words = [_text(_LEFT, _LINE * n, line, bold=True) for n, line in enumerate(name, start=1)]
    for number, (color, line) in enumerate(below, start=1):
        y = top + _HEIGHT + _LINE * number - 4
        words.append(_text(_LEFT + 20, y, line))
        if color is not None:
            words.append(f'<path class="line s{color}" d="M{_LEFT} {y - 4}h14"/>')
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'viewBox="0 0 {_WIDTH} {top + _HEIGHT + _LINE * len(below) + 4}">'
        f"<title>{escape(chart.name)}</title><desc>{escape(describe_chart(chart))}</desc>"
        f"<style>{_FILE_STYLE}{CHART_STYLE}</style>"
        f'<g transform="translate(0 {top})">{"".join(_plot(chart))}</g>{"".join(words)}</svg>\n'
    )


def _legend(drawn: Sequence[Series]) -> Iterator[tuple[int | None, str]]:
    """The lines of the legend; the first of each series has its color."""
    for series in drawn:
        first, *rest = wrap(f"{series.key} {series.label}", _CHARACTERS) or [""]
        yield series.color, first
        yield from ((None, line) for line in rest)


def _text(x: int, y: int, line: str, *, bold: bool = False) -> str:
    name = ' class="name"' if bold else ""
    return f'<text{name} x="{x}" y="{y}">{escape(line)}</text>'


def describe_chart(chart: Chart) -> str:
    """The chart in words: the last value of every line."""
    ends = []
    for series in chart.series:
        known = np.flatnonzero(np.isfinite(series.values))
        if known.size:
            value, step = series.values[known[-1]], series.steps[known[-1]]
            ends.append(f"{series.key} {value:.4g} at step {step:.0f}".strip())
    return f"{chart.name}: {', '.join(ends) or 'no values'}"


def _plot(chart: Chart) -> Iterator[str]:
    drawn = [series for series in chart.series if np.isfinite(series.values).any()]
    if not drawn:
        yield f'<text x="{_LEFT}" y="{_HEIGHT // 2}">no values</text>'
        return
    x = _x_range(drawn)
    y = around(_extremes(drawn, chart.is_log))
    yield from _grid(x, y, chart.is_log)
    for series in drawn:
        yield from _band(series, x, y, chart.is_log)
    for series in drawn:
        yield _line(series, x, y, chart.is_log)
    if len(drawn) > 1:
        yield from _keys(drawn, x, y, chart.is_log)


def _x_range(drawn: Sequence[Series]) -> Range:
    first = min(float(series.steps[0]) for series in drawn)
    last = max(float(series.steps[-1]) for series in drawn)
    return Range(first, last) if last > first else Range(first - 0.5, first + 0.5)


def _extremes(drawn: Sequence[Series], is_log: bool) -> list[float]:
    """The lowest and highest values of all lines and bands, on the axis."""
    ends = [
        float(end)
        for series in drawn
        for values in (series.values, series.low, series.high)
        if values is not None and np.isfinite(values).any()
        for end in (np.nanmin(values), np.nanmax(values))
    ]
    return [math.log10(end) for end in ends] if is_log else ends


def _grid(x: Range, y: Range, is_log: bool) -> Iterator[str]:
    """Lines and labels of both axes."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for level, label in _levels(y, is_log):
        place = _y(level, y)
        yield f'<path class="grid" d="M{_LEFT} {place:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 5}" y="{place + 3.5:.1f}" text-anchor="end">{label}</text>'
    values = [value for value in ticks(x, 4) if value.is_integer()]
    for value, label in zip(values, _step_labels(x, values), strict=True):
        yield f'<text x="{_x(value, x):.1f}" y="{bottom + 15}" text-anchor="middle">{label}</text>'
    yield f'<path class="grid" d="M{_LEFT} {bottom}H{right}"/>'


def _step_labels(x: Range, values: Sequence[float]) -> list[str]:
    """Steps are whole numbers: ``400``, ``20k``."""
    if max(map(abs, values), default=0) < 10_000:
        return [f"{value:.0f}" for value in values]
    return tick_labels(x, [*values], 4)


def _levels(y: Range, is_log: bool) -> list[tuple[float, str]]:
    """Round values on the axis with their labels; powers of ten on a log axis."""
    if not is_log:
        values = ticks(y, 5)
        return list(zip(values, tick_labels(y, values, 5), strict=True))
    powers = range(math.ceil(y.low), math.floor(y.high) + 1)
    if len(powers) > 1:
        stride = math.ceil(len(powers) / 5)
        return [(power, f"1e{power}") for power in powers[::stride]]
    plain = Range(10**y.low, 10**y.high)
    values = [value for value in ticks(plain, 4) if value > 0]
    labels = tick_labels(plain, values, 4)
    return [(math.log10(value), label) for value, label in zip(values, labels, strict=True)]


def _line(series: Series, x: Range, y: Range, is_log: bool) -> str:
    """The line; a dot where no neighbor is left. Below, a tick where a step has no number."""
    kept = kept_points(series.steps, series.values, x, _COLUMNS)
    pieces = find_pieces(kept, series.values)
    lines, dots = (
        "".join(_path(series.steps[p], series.values[p], x, y, is_log) for p in chosen)
        for chosen in ([p for p in pieces if p.size > 1], [p for p in pieces if p.size == 1])
    )
    title = f"<title>{escape(f'{series.key} {series.label}'.strip())}</title>"
    line = "".join(
        f'<path class="{kind} s{series.color}" d="{path}">{title}</path>'
        for kind, path in (("line", lines), ("line dot", dots))
        if path
    )
    gaps = missing_places(series.steps, series.values, x, _COLUMNS)
    if not gaps.size:
        return line
    marks = "".join(f"M{_x(step, x):.1f} {_HEIGHT - _BOTTOM}v-6" for step in gaps.tolist())
    return f'{line}<path class="gap s{series.color}" d="{marks}"/>'


def _band(series: Series, x: Range, y: Range, is_log: bool) -> Iterator[str]:
    """The area between the ends of the band, in pieces as the line has them."""
    if series.low is None or series.high is None:
        return
    shape = ""
    for piece in find_pieces(np.flatnonzero(np.isfinite(series.low)), series.low):
        steps, low, high = (a[piece] for a in (series.steps, series.low, series.high))
        top, base = (kept_points(steps, values, x, _COLUMNS) for values in (high, low))
        there = _path(steps[top], high[top], x, y, is_log)
        back = _path(steps[base][::-1], low[base][::-1], x, y, is_log)
        shape += f"{there}L{back[1:]}Z" if piece.size > 1 else ""
    if shape:
        yield f'<path class="band f{series.color}" d="{shape}"/>'


def _path(steps: Floats, values: Floats, x: Range, y: Range, is_log: bool) -> str:
    levels = np.log10(values) if is_log else values
    points = [
        f"{_x(step, x):.1f} {_y(level, y):.1f}"
        for step, level in zip(steps.tolist(), levels.tolist(), strict=True)
    ]
    return f"M{points[0]}h0" if len(points) == 1 else f"M{'L'.join(points)}"


def _keys(drawn: Sequence[Series], x: Range, y: Range, is_log: bool) -> Iterator[str]:
    """The letter of every line at its end, moved apart where lines end together."""
    ends = []
    for series in drawn:
        last = np.flatnonzero(np.isfinite(series.values))[-1]
        value = float(series.values[last])
        level = _y(math.log10(value) if is_log else value, y)
        ends.append((level, _x(float(series.steps[last]), x), series))
    ends.sort(key=lambda end: end[0])
    lowest = _HEIGHT - _BOTTOM - _KEY * (len(ends) - 1)
    free = float(_TOP)
    for number, (level, place, series) in enumerate(ends):
        level = max(free, min(level, lowest + _KEY * number))
        free = level + _KEY
        yield (
            f'<text class="key f{series.color}" x="{place + 4:.1f}" y="{level + 3.5:.1f}">'
            f"{escape(series.key)}</text>"
        )


def _x(step: float, x: Range) -> float:
    return _LEFT + x.share(step) * (_WIDTH - _LEFT - _RIGHT)


def _y(level: float, y: Range) -> float:
    return _HEIGHT - _BOTTOM - y.share(level) * (_HEIGHT - _TOP - _BOTTOM)
