"""The curves of a report, and a chart as SVG: inside a page, or as a file of its own.

Which metrics, a line for each group, a band over seeds. The same chart gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from html import escape
from textwrap import wrap

import numpy as np

from engine.base.errors import unknown_name
from engine.base.quantities import format_count, format_number
from engine.base.ticks import Axis, Range, around, axis_of, step_ticks
from engine.report.compare import metric_names
from engine.report.groups import group_line
from engine.report.run_record import RunRecord
from engine.report.run_report.report import Chart, Legend
from engine.run.history.columns import Floats, Ints
from engine.run.history.metrics import usual_metrics
from engine.run.history.plot import Band, Line, Plot, extremes, logarithmic, sweep_line
from engine.run.history.sweep import Sweep

_WIDTH, _HEIGHT = 400, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 20, 10, 24
_COLUMNS = 2 * (_WIDTH - _LEFT - _RIGHT)
"""Columns of points: two for each unit, for screens that enlarge the chart."""
_LINE = 16
"""Height of a line of the legend."""
_CHARACTERS = 54
"""Of a line of text, which SVG does not wrap."""
_ROWS = 16
"""Lines of text beside the grid."""
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
        *_legend(chart.plot.lines),
        *(("", line) for n in chart.notes for line in wrap(n, _CHARACTERS)),
    ]
    words = [_text(_LEFT, _LINE * n, line, bold=True) for n, line in enumerate(name, start=1)]
    for number, (color, line) in enumerate(below, start=1):
        y = top + _HEIGHT + _LINE * number - 4
        words.append(_text(_LEFT + 20, y, line))
        if color:
            words.append(f'<path class="line s{color}" d="M{_LEFT} {y - 4}h14"/>')
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'viewBox="0 0 {_WIDTH} {top + _HEIGHT + _LINE * len(below) + 4}">'
        f"<title>{escape(chart.name)}</title><desc>{escape(describe_chart(chart))}</desc>"
        f"<style>{_FILE_STYLE}{CHART_STYLE}</style>"
        f'<g transform="translate(0 {top})">{"".join(_plot(chart))}</g>{"".join(words)}</svg>\n'
    )


def _legend(drawn: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """The lines of the legend; the first of each line of the chart has its color."""
    for line in drawn:
        first, *rest = wrap(f"{line.key} {line.label}", _CHARACTERS) or [""]
        yield _color(line), first
        yield from (("", text) for text in rest)


def _color(line: Line) -> str:
    """``3`` for ``series-3``."""
    return line.ink.removeprefix("series-")


def _text(x: int, y: int, line: str, *, bold: bool = False) -> str:
    name = ' class="name"' if bold else ""
    return f'<text{name} x="{x}" y="{y}">{escape(line)}</text>'


def describe_chart(chart: Chart) -> str:
    """The chart in words: the last value of every line."""
    ends = [
        f"{line.key} {format_number(value)} at step {step:.0f}".strip()
        for line in _with_values(chart.plot)
        for step, value in [_end(line)]
    ]
    return f"{chart.name}: {', '.join(ends) or 'no values'}"


def _with_values(plot: Plot) -> tuple[Line, ...]:
    return tuple(line for line in plot.lines if np.isfinite(line.y).any())


def _end(line: Line) -> tuple[float, float]:
    """The last step with a value, and the value."""
    last = np.flatnonzero(np.isfinite(line.y))[-1]
    return float(line.x[last]), float(line.y[last])


def _plot(chart: Chart) -> Iterator[str]:
    plot = Plot(_with_values(chart.plot))
    extent = plot.extent()
    if extent is None:
        yield f'<text x="{_LEFT}" y="{_HEIGHT // 2}">no values</text>'
        return
    lines = (logarithmic(plot) if chart.is_log else plot).lines
    steps = {float(line.x[end]) for line in lines for end in (0, -1)}
    # A single step is in the middle.
    x = extent if len(steps) > 1 else Range(extent.low - 0.5, extent.low + 0.5)
    bands = [(line, band) for line in lines if (band := line.band(chart.band)) is not None]
    edges = [edge for _, band in bands for edge in (band.low, band.high)]
    y = axis_of(around(extremes([*(line.y for line in lines), *edges])), _ROWS, log=chart.is_log)
    yield from _grid(x, y)
    for line, band in bands:
        yield from _band(line, band, x, y.span)
    for line in lines:
        yield _line(line, x, y.span)
    if len(lines) > 1:
        yield from _keys(lines, x, y.span)


def _grid(x: Range, y: Axis) -> Iterator[str]:
    """Lines and labels of both axes."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for level, label in zip(y.levels, y.labels, strict=True):
        place = _y(level, y.span)
        yield f'<path class="grid" d="M{_LEFT} {place:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 5}" y="{place + 3.5:.1f}" text-anchor="end">{label}</text>'
    for step in step_ticks(x, 4):
        place, label = _x(step, x), f"{step:.0f}"
        yield f'<text x="{place:.1f}" y="{bottom + 15}" text-anchor="middle">{label}</text>'
    yield f'<path class="grid" d="M{_LEFT} {bottom}H{right}"/>'


def _line(line: Line, x: Range, y: Range) -> str:
    """The line; a dot where no neighbor is left. Below, a tick where a step has no number."""
    kept = kept_points(line.x, line.y, x, _COLUMNS)
    pieces = find_pieces(kept, line.y)
    lines, dots = (
        "".join(_path(line.x[p], line.y[p], x, y) for p in chosen)
        for chosen in ([p for p in pieces if p.size > 1], [p for p in pieces if p.size == 1])
    )
    title = f"<title>{escape(f'{line.key} {line.label}'.strip())}</title>"
    drawn = "".join(
        f'<path class="{kind} s{_color(line)}" d="{path}">{title}</path>'
        for kind, path in (("line", lines), ("line dot", dots))
        if path
    )
    if not line.gaps.size:
        return drawn
    gaps = one_per_column(line.gaps, x, _COLUMNS).tolist()
    marks = "".join(f"M{_x(step, x):.1f} {_HEIGHT - _BOTTOM}v-6" for step in gaps)
    return f'{drawn}<path class="gap s{_color(line)}" d="{marks}"/>'


def _band(line: Line, band: Band, x: Range, y: Range) -> Iterator[str]:
    """The area between the ends of the band, in pieces as the line has them."""
    shape = ""
    for piece in find_pieces(np.flatnonzero(np.isfinite(band.low)), band.low):
        steps, low, high = (a[piece] for a in (line.x, band.low, band.high))
        top, base = (kept_points(steps, values, x, _COLUMNS) for values in (high, low))
        there = _path(steps[top], high[top], x, y)
        back = _path(steps[base][::-1], low[base][::-1], x, y)
        shape += f"{there}L{back[1:]}Z" if piece.size > 1 else ""
    if shape:
        yield f'<path class="band f{_color(line)}" d="{shape}"/>'


def _path(steps: Floats, values: Floats, x: Range, y: Range) -> str:
    points = [
        f"{_x(step, x):.1f} {_y(level, y):.1f}"
        for step, level in zip(steps.tolist(), values.tolist(), strict=True)
    ]
    return f"M{points[0]}h0" if len(points) == 1 else f"M{'L'.join(points)}"


def _keys(lines: Sequence[Line], x: Range, y: Range) -> Iterator[str]:
    """The letter of every line at its end, moved apart where lines end together."""
    ends = [(_y(value, y), _x(step, x), line) for line in lines for step, value in [_end(line)]]
    ends.sort(key=lambda end: end[0])
    lowest = _HEIGHT - _BOTTOM - _KEY * (len(ends) - 1)
    free = float(_TOP)
    for number, (level, place, line) in enumerate(ends):
        level = max(free, min(level, lowest + _KEY * number))
        free = level + _KEY
        yield (
            f'<text class="key f{_color(line)}" x="{place + 4:.1f}" y="{level + 3.5:.1f}">'
            f"{escape(line.key)}</text>"
        )


def _x(step: float, x: Range) -> float:
    return _LEFT + x.share(step) * (_WIDTH - _LEFT - _RIGHT)


def _y(level: float, y: Range) -> float:
    return _HEIGHT - _BOTTOM - y.share(level) * (_HEIGHT - _TOP - _BOTTOM)


def kept_points(steps: Floats, values: Floats, x: Range, columns: int) -> Ints:
    """The indices of the points to draw, ascending: all of a short curve.

    Of a curve with more than two points per column: the first, the last, and the lowest and highest
    of each column, so that a single step that sticks out is drawn. Points without a number are left
    out.
    """
    finite = np.flatnonzero(np.isfinite(values))
    if finite.size <= 2 * columns:
        return finite
    shares = (steps[finite] - x.low) / x.size
    column = np.clip((shares * columns).astype(np.int64), 0, columns - 1)
    order = np.lexsort((values[finite], column))
    is_new = np.diff(column[order]) != 0
    lowest = order[np.concatenate([[True], is_new])]
    highest = order[np.concatenate([is_new, [True]])]
    kept: Ints = np.unique(np.concatenate([[0], lowest, highest, [finite.size - 1]]))
    return finite[kept]


def find_pieces(kept: Ints, values: Floats) -> list[Ints]:
    """The kept points in pieces that a line connects: a step without a number divides them."""
    if not kept.size:
        return []
    missing = np.cumsum(~np.isfinite(values))
    breaks = np.flatnonzero(np.diff(missing[kept])) + 1
    return np.split(kept, breaks)


def one_per_column(steps: Floats, x: Range, columns: int) -> Floats:
    """The first of the ascending steps in each column."""
    column = ((steps - x.low) / x.size * columns).astype(np.int64)
    return steps[np.unique(column, return_index=True)[1]]


MOST = 12
"""Charts of metrics that nobody chose."""
_WORTHWHILE = ("val-core/", "reward/", "val/")


def choose_metrics(
    records: Sequence[RunRecord], wanted: Sequence[str], log: Sequence[str]
) -> list[str]:
    """The ``wanted`` metrics, or the usual ones that a run has logged, and then those of rewards
    and validations; of runs without any of these, the first by name. Those of ``log`` are added.

    UsageError for a metric that no run has logged.
    """
    names = metric_names(records)
    for name in (*wanted, *log):
        if name not in names:
            raise unknown_name("metric", name, names)
    chosen = list(wanted)
    if not wanted:
        chosen = usual_metrics(names)
        chosen += [name for name in names if name.startswith(_WORTHWHILE) and name not in chosen]
        chosen = (chosen or names)[:MOST]
    return list(dict.fromkeys([*chosen, *log]))


def draw_metrics(
    records: Sequence[RunRecord],
    legend: Sequence[Legend],
    metrics: Sequence[str],
    log: Container[str],
) -> Iterator[Chart]:
    """A chart of each metric; ``log`` names those whose axis is to be logarithmic."""
    by_id = {record.id: record for record in records}
    for metric in metrics:
        groups = (
            (entry, [by_id[run].columns.get(metric) for run in entry.runs]) for entry in legend
        )
        lines = tuple(
            group_line(columns, entry.name, f"series-{entry.color}", key=entry.key)
            for entry, columns in groups
            if any(map(len, columns))
        )
        yield _chart(metric, lines, wants_log=metric in log)


def draw_sweeps(sweeps: Sequence[tuple[Legend, str, Sweep]]) -> Iterator[Chart]:
    """The checkpoints that ``sweep`` measured, in bands of their 95% intervals.

    One chart for each metric and evaluation: means of other items are no comparison.
    """
    kinds = dict.fromkeys((sweep.metric, sweep.evaluation) for _, _, sweep in sweeps)
    for metric, evaluation in kinds:
        lines = tuple(
            sweep_line(sweep, run, f"series-{entry.color}", key=entry.key)
            for entry, run, sweep in sweeps
            if (sweep.metric, sweep.evaluation) == (metric, evaluation)
        )
        name = f"checkpoints: {metric} ({evaluation})"
        yield Chart(name, Plot(lines), "spread", notes=("band: 95% interval",))


def _chart(metric: str, lines: tuple[Line, ...], *, wants_log: bool) -> Chart:
    notes = list(_missing(lines))
    if any(line.bands for line in lines):
        notes.append("band: from the lowest to the highest seed")
    refusal = _log_refusal(lines) if wants_log else None
    if refusal:
        notes.append(refusal)
    is_log = wants_log and refusal is None
    if is_log:
        notes.append("logarithmic axis")
    return Chart(metric, Plot(lines), is_log=is_log, notes=tuple(notes))


def _missing(lines: Sequence[Line]) -> Iterator[str]:
    """What the marks below the lines stand for."""
    for line in lines:
        if line.gaps.size:
            count = format_count(line.gaps.size, "step")
            yield f"{line.key} has no number at {count}, first {line.gaps[0]:.0f}".strip()


def _log_refusal(lines: Sequence[Line]) -> str | None:
    """Why the values have no logarithms; None if all have."""
    for line in lines:
        band = line.band("extremes")
        steps = line.x[(line.y if band is None else band.low) <= 0]
        if steps.size:
            return (
                f"linear axis: {line.label} has {format_count(steps.size, 'value')} of 0 or less, "
                f"first at step {steps[0]:.0f}, and these have no logarithm"
            )
    return None
