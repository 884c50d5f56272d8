"""The curves of a report: which metrics, a line for each group, a band over seeds."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np

from engine.base.errors import unknown_name
from engine.base.text import count_of
from engine.history.columns import Column
from engine.history.metrics import usual_metrics
from engine.history.sweep import Sweep
from engine.reports.compare import metric_names
from engine.reports.groups import mean_curve
from engine.reports.run_record import RunRecord
from engine.reports.run_report.report import Chart, Legend, Series

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
            count = count_of(steps.size, "step")
            yield f"{line.key} has no number at {count}, first {steps[0]:.0f}".strip()


def _log_refusal(series: Sequence[Series]) -> str | None:
    """Why the values have no logarithms; None if all have."""
    for line in series:
        lowest = line.values if line.low is None else line.low
        steps = line.steps[lowest <= 0]
        if steps.size:
            return (
                f"linear axis: {line.label} has {count_of(steps.size, 'value')} of 0 or less, "
                f"first at step {steps[0]:.0f}, and these have no logarithm"
            )
    return None
