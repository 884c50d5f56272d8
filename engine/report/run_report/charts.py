"""The curves of a report, and a chart as SVG: inside a page, or as a file of its own.

Which metrics, a line for each group, a band over seeds. The same chart gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from html import escape
from textwrap import wrap

import numpy as np

from engine.base.errors import unknown_name
from engine.base.quantities import format_count, format_number
from engine.base.ticks import Axis, Range, around, axis_of, step_ticks
from engine.report.compare import metric_names
from engine.report.groups import mean_curve
from engine.report.run_record import RunRecord
from engine.report.run_report.report import Chart, Legend, Series
from engine.run.history.columns import Column, Floats, Ints
from engine.run.history.metrics import usual_metrics
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
            ends.append(f"{series.key} {format_number(value)} at step {step:.0f}".strip())
    return f"{chart.name}: {', '.join(ends) or 'no values'}"


def _plot(chart: Chart) -> Iterator[str]:
    drawn = [series for series in chart.series if np.isfinite(series.values).any()]
    if not drawn:
        yield f'<text x="{_LEFT}" y="{_HEIGHT // 2}">no values</text>'
        return
    drawn = [_with_logarithms(series) for series in drawn] if chart.is_log else drawn
    x, y = _x_range(drawn), around(_extremes(drawn))
    yield from _grid(x, axis_of(y, _ROWS, log=chart.is_log))
    for series in drawn:
        yield from _band(series, x, y)
    for series in drawn:
        yield _line(series, x, y)
    if len(drawn) > 1:
        yield from _keys(drawn, x, y)


def _with_logarithms(series: Series) -> Series:
    low, high = (None if end is None else np.log10(end) for end in (series.low, series.high))
    return replace(series, values=np.log10(series.values), low=low, high=high)


def _x_range(drawn: Sequence[Series]) -> Range:
    first = min(float(series.steps[0]) for series in drawn)
    last = max(float(series.steps[-1]) for series in drawn)
    return Range(first, last) if last > first else Range(first - 0.5, first + 0.5)


def _extremes(drawn: Sequence[Series]) -> list[float]:
    """The lowest and highest values of all lines and bands."""
    return [
        float(end)
        for series in drawn
        for values in (series.values, series.low, series.high)
        if values is not None and np.isfinite(values).any()
        for end in (np.nanmin(values), np.nanmax(values))
    ]


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


def _line(series: Series, x: Range, y: Range) -> str:
    """The line; a dot where no neighbor is left. Below, a tick where a step has no number."""
    kept = kept_points(series.steps, series.values, x, _COLUMNS)
    pieces = find_pieces(kept, series.values)
    lines, dots = (
        "".join(_path(series.steps[p], series.values[p], x, y) for p in chosen)
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


def _band(series: Series, x: Range, y: Range) -> Iterator[str]:
    """The area between the ends of the band, in pieces as the line has them."""
    if series.low is None or series.high is None:
        return
    shape = ""
    for piece in find_pieces(np.flatnonzero(np.isfinite(series.low)), series.low):
        steps, low, high = (a[piece] for a in (series.steps, series.low, series.high))
        top, base = (kept_points(steps, values, x, _COLUMNS) for values in (high, low))
        there = _path(steps[top], high[top], x, y)
        back = _path(steps[base][::-1], low[base][::-1], x, y)
        shape += f"{there}L{back[1:]}Z" if piece.size > 1 else ""
    if shape:
        yield f'<path class="band f{series.color}" d="{shape}"/>'


def _path(steps: Floats, values: Floats, x: Range, y: Range) -> str:
    points = [
        f"{_x(step, x):.1f} {_y(level, y):.1f}"
        for step, level in zip(steps.tolist(), values.tolist(), strict=True)
    ]
    return f"M{points[0]}h0" if len(points) == 1 else f"M{'L'.join(points)}"


def _keys(drawn: Sequence[Series], x: Range, y: Range) -> Iterator[str]:
    """The letter of every line at its end, moved apart where lines end together."""
    ends = []
    for series in drawn:
        last = np.flatnonzero(np.isfinite(series.values))[-1]
        level = _y(float(series.values[last]), y)
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


def missing_places(steps: Floats, values: Floats, x: Range, columns: int) -> Floats:
    """The steps without a number, at most one of each column."""
    steps = steps[~np.isfinite(values)]
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
        series = tuple(
            _series(entry, [by_id[run].columns.get(metric) for run in entry.runs])
            for entry in legend
            if any(len(by_id[run].columns.get(metric)) for run in entry.runs)
        )
        yield _chart(metric, series, wants_log=metric in log)


def draw_sweeps(sweeps: Sequence[tuple[Legend, str, Sweep]]) -> Iterator[Chart]:
    """The checkpoints that ``sweep`` measured, in bands of their 95% intervals.

    One chart for each metric and evaluation: means of other items are no comparison.
    """
    kinds = dict.fromkeys((sweep.metric, sweep.evaluation) for _, _, sweep in sweeps)
    for metric, evaluation in kinds:
        series = tuple(
            _swept(entry, run, sweep)
            for entry, run, sweep in sweeps
            if (sweep.metric, sweep.evaluation) == (metric, evaluation)
        )
        yield Chart(f"checkpoints: {metric} ({evaluation})", series, notes=("band: 95% interval",))


def _series(entry: Legend, columns: Sequence[Column]) -> Series:
    """The line of a group: of one run as it was logged, of several their mean.

    A step at which one of them logged no number has no mean.
    """
    if len(columns) == 1:
        return Series(entry.key, entry.name, entry.color, columns[0].steps, columns[0].values)
    curve = mean_curve(columns)
    missing = [column.steps[~np.isfinite(column.values)] for column in columns]
    steps = np.unique(np.concatenate([curve.steps, *missing]))
    known = np.isin(steps, curve.steps)
    values, low, high = (np.full(steps.size, np.nan) for _ in range(3))
    values[known], low[known], high[known] = curve.mean, curve.low, curve.high
    return Series(entry.key, entry.name, entry.color, steps, values, low, high)


def _swept(entry: Legend, run: str, sweep: Sweep) -> Series:
    points = sweep.points
    low = [point.mean if point.low is None else point.low for point in points]
    high = [point.mean if point.high is None else point.high for point in points]
    return Series(
        entry.key,
        run,
        entry.color,
        np.array([float(point.step) for point in points]),
        np.array([point.mean for point in points]),
        np.array(low),
        np.array(high),
    )


def _chart(metric: str, series: tuple[Series, ...], *, wants_log: bool) -> Chart:
    notes = list(_missing(series))
    if any(line.low is not None for line in series):
        notes.append("band: from the lowest to the highest seed")
    refusal = _log_refusal(series) if wants_log else None
    if refusal:
        notes.append(refusal)
    is_log = wants_log and refusal is None
    if is_log:
        notes.append("logarithmic axis")
    return Chart(metric, series, is_log, tuple(notes))


def _missing(series: Sequence[Series]) -> Iterator[str]:
    """What the marks below the lines stand for."""
    for line in series:
        steps = line.steps[~np.isfinite(line.values)]
        if steps.size:
            count = format_count(steps.size, "step")
            yield f"{line.key} has no number at {count}, first {steps[0]:.0f}".strip()


def _log_refusal(series: Sequence[Series]) -> str | None:
    """Why the values have no logarithms; None if all have."""
    for line in series:
        lowest = line.values if line.low is None else line.low
        steps = line.steps[lowest <= 0]
        if steps.size:
            return (
                f"linear axis: {line.label} has {format_count(steps.size, 'value')} of 0 or less, "
                f"first at step {steps[0]:.0f}, and these have no logarithm"
            )
    return None
