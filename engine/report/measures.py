"""The results of runs side by side: rows of a comparison, from numbers in the files of the runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from engine.base.intervals import Estimate, estimate_mean
from engine.base.paired_comparison import (
    Comparison,
    adjust_for_many,
    compare_paired,
    compare_unpaired,
)
from engine.base.quantities import (
    MISSING,
    format_duration,
    format_number,
    format_seconds,
    format_whole,
)
from engine.report.entry import WINDOW
from engine.report.groups import Group
from engine.report.run_record import RunRecord
from engine.run.figures import MachineUse
from engine.run.history import metrics

Better = Literal["high", "low"]
Unit = Literal["number", "seconds", "duration", "count", "bytes", "percent", "text"]
Value = float | str | None
Cell = tuple[Value, int | None]
"""A value of one run, and the step that it belongs to, if it belongs to one step."""

_NO_VALUE: Cell = (None, None)


@dataclass(frozen=True)
class Entry:
    """A measure of one column: the value of one run, or the mean of the runs of a group.

    ``samples``: the value of each run by what pairs it with a run of another group, its seed.
    """

    value: Value
    step: int | None = None
    samples: Mapping[object, float] = field(default_factory=dict)

    @cached_property
    def estimate(self) -> Estimate | None:
        """Mean and 95% interval over the seeds; None for fewer than two runs."""
        values = list(self.samples.values())
        return estimate_mean(values) if len(values) > 1 else None


@dataclass(frozen=True)
class Measure:
    """One quantity of every column. ``better``: whether high or low values are good, if either."""

    name: str
    unit: Unit
    better: Better | None
    entries: tuple[Entry, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        return tuple(entry.value for entry in self.entries)

    @property
    def steps(self) -> tuple[int | None, ...]:
        """The step of each value that belongs to one step."""
        return tuple(entry.step for entry in self.entries)

    def best(self) -> int | None:
        """The column that is better than every other one that has a value, at 95% confidence after
        Holm's correction; None if no column is, as with one run in each."""
        measured = [i for i, entry in enumerate(self.entries) if entry.samples]
        if self.better is None or len(measured) < 2:
            return None
        choose = max if self.better == "high" else min
        best = choose(measured, key=lambda index: _mean(self.entries[index]))
        others = [self._compare(index, best) for index in measured if index != best]
        won = "better" if self.better == "high" else "worse"
        return best if all(other.verdict == won for other in adjust_for_many(others)) else None

    def deltas(self, baseline: int) -> tuple[float | None, ...]:
        """The differences from the column at ``baseline``; None if either value is missing."""
        return tuple(
            None if comparison is None else comparison.difference.mean
            for comparison in self.comparisons(baseline)
        )

    def comparisons(self, baseline: int) -> tuple[Comparison | None, ...]:
        """Each column compared with that at ``baseline``: paired by the seeds that both have, if
        these are two at least; else Welch's test."""
        if not self.entries[baseline].samples:
            return (None,) * len(self.entries)
        return tuple(
            self._compare(baseline, index) if entry.samples else None
            for index, entry in enumerate(self.entries)
        )

    def verdicts(self, baseline: int) -> tuple[bool | None, ...]:
        """Whether each column is better (True) or worse than the baseline, where that is more than
        chance, after Holm's correction; else None."""
        comparisons = self.comparisons(baseline)
        others = [c for i, c in enumerate(comparisons) if c is not None and i != baseline]
        adjusted = iter(adjust_for_many(others))
        return tuple(
            None if comparison is None or index == baseline else self._is_better(next(adjusted))
            for index, comparison in enumerate(comparisons)
        )

    def _is_better(self, comparison: Comparison) -> bool | None:
        if self.better is None or comparison.verdict not in ("better", "worse"):
            return None
        return (comparison.verdict == "better") == (self.better == "high")

    def _compare(self, base: int, index: int) -> Comparison:
        left, right = self.entries[base].samples, self.entries[index].samples
        shared = [unit for unit in left if unit in right]
        if len(shared) > 1:
            return compare_paired([left[u] for u in shared], [right[u] for u in shared])
        return compare_unpaired([*left.values()], [*right.values()])

    def to_json(self, names: Sequence[str], baseline: int) -> dict[str, object]:
        best, comparisons = self.best(), self.comparisons(baseline)
        row: dict[str, object] = {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "values": dict(zip(names, self.values, strict=True)),
            "steps": {name: s for name, s in zip(names, self.steps, strict=True) if s is not None},
            "deltas": dict(zip(names, self.deltas(baseline), strict=True)),
            "best": [] if best is None else [names[best]],
        }
        intervals = {
            name: [entry.estimate.low, entry.estimate.high]
            for name, entry in zip(names, self.entries, strict=True)
            if entry.estimate is not None
        }
        delta_intervals = {
            name: comparison.difference.interval
            for index, (name, comparison) in enumerate(zip(names, comparisons, strict=True))
            if comparison is not None
            and index != baseline
            and comparison.difference.low is not None
        }
        return {**row, "ci": intervals, "delta_ci": delta_intervals} if intervals else row


def _mean(entry: Entry) -> float:
    return math.fsum(entry.samples.values()) / len(entry.samples)


def measure_run(record: RunRecord, until: int | None = None) -> tuple[Cell, ...]:
    """All measures of one run; with ``until`` up to that step."""
    return tuple(spec.read(record, until) for spec in _SPECS)


def measures(
    by_run: Sequence[tuple[Cell, ...]], groups: Sequence[Group], *, same_scale: bool = True
) -> list[Measure]:
    """The measures of several groups as rows, without rows that have no value at all.

    Without ``same_scale``, no reward is better than another one.
    """
    rows = []
    if any(len(group.members) > 1 for group in groups):
        rows.append(Measure("seeds", "text", None, tuple(Entry(group.label) for group in groups)))
    for spec, cells in zip(_SPECS, zip(*by_run, strict=True), strict=True):
        entries = tuple(
            _entry([cells[index] for index in group.members], group.units) for group in groups
        )
        if any(entry.value is not None for entry in entries):
            better = spec.better if same_scale or not spec.is_reward else None
            rows.append(Measure(spec.name, spec.unit, better, entries))
    return rows


def _entry(cells: Sequence[Cell], units: Sequence[object]) -> Entry:
    """One entry for the runs of a group."""
    numbers = {
        unit: value
        for unit, (value, _) in zip(units, cells, strict=True)
        if isinstance(value, float)
    }
    if len(cells) == 1:
        return Entry(*cells[0], numbers)
    if numbers:
        return Entry(math.fsum(numbers.values()) / len(numbers), None, numbers)
    texts = Counter(value for value, _ in cells if isinstance(value, str))
    if len(texts) > 1:
        return Entry(", ".join(f"{count} {text}" for text, count in texts.items()))
    return Entry(next(iter(texts), None))


@dataclass(frozen=True)
class _Spec:
    name: str
    unit: Unit
    better: Better | None
    read: Callable[[RunRecord, int | None], Cell]
    is_reward: bool = False


def _last(metric: str) -> Callable[[RunRecord, int | None], Cell]:
    def read(record: RunRecord, until: int | None) -> Cell:
        steps, values = record.values(metric, until)
        return (float(values[-1]), int(steps[-1])) if values.size else _NO_VALUE

    return read


def _best(metric: str, better: Better) -> Callable[[RunRecord, int | None], Cell]:
    def read(record: RunRecord, until: int | None) -> Cell:
        steps, values = record.values(metric, until)
        if not values.size:
            return _NO_VALUE
        index = int(np.argmax(values) if better == "high" else np.argmin(values))
        return float(values[index]), int(steps[index])

    return read


def _recent(metric: str) -> Callable[[RunRecord, int | None], Cell]:
    def read(record: RunRecord, until: int | None) -> Cell:
        values = record.values(metric, until)[1][-WINDOW:]
        return (float(values.mean()) if values.size else None), None

    return read


def _judge_calls(record: RunRecord, until: int | None) -> Cell:
    values = record.values(metrics.JUDGE_CALLS, until)[1]
    return (float(values.sum()) if values.size else None), None


def _steps_done(record: RunRecord, until: int | None) -> Cell:
    steps = record.steps()
    if until is not None:
        steps = steps[steps <= until]
    return (float(steps[-1]) if steps.size else None), None


def _step_time(record: RunRecord, until: int | None) -> Cell:
    """The median, without the first step, which includes the warm-up."""
    times = record.step_times(until)
    times = times[1:] if times.size > 1 else times
    return (float(np.median(times)) if times.size else None), None


def _median(metric: str) -> Callable[[RunRecord, int | None], Cell]:
    """The median, without the first step, which includes the warm-up."""

    def read(record: RunRecord, until: int | None) -> Cell:
        values = record.values(metric, until)[1]
        values = values[1:] if values.size > 1 else values
        return (float(np.median(values)) if values.size else None), None

    return read


def _of_machine(
    choose: Callable[[MachineUse], float | None],
) -> Callable[[RunRecord, int | None], Cell]:
    """Of the whole run: samples of the machine belong to no step."""

    def read(record: RunRecord, until: int | None) -> Cell:
        value = choose(record.machine) if until is None else None
        return (None if value is None else float(value)), None

    return read


def _health(record: RunRecord, until: int | None) -> Cell:
    """The health of a finished run; other runs are described by their state."""
    return (record.health.phrase or "healthy") if record.health else None, None


def _checkpoint(record: RunRecord, until: int | None) -> Cell:
    report = record.checkpoint
    if report is None or not report.complete:
        return (None if report is None else "moved" if report.moved else "none"), None
    return (f"step {report.step}" if report.step is not None else "final model"), None


_SPECS = (
    _Spec("state", "text", None, lambda record, until: (record.state.word, None)),
    _Spec("health", "text", None, _health),
    _Spec("steps done", "count", None, _steps_done),
    _Spec("reward, last", "number", "high", _last(metrics.REWARD_MEAN), is_reward=True),
    _Spec("reward, best", "number", "high", _best(metrics.REWARD_MEAN, "high"), is_reward=True),
    _Spec(f"reward, last {WINDOW}", "number", "high", _recent(metrics.REWARD_MEAN), is_reward=True),
    _Spec(f"std in group, last {WINDOW}", "number", None, _recent(metrics.REWARD_STD)),
    _Spec("validation, last", "number", "high", _last(metrics.VALIDATION_REWARD), is_reward=True),
    _Spec(
        "validation, best",
        "number",
        "high",
        _best(metrics.VALIDATION_REWARD, "high"),
        is_reward=True,
    ),
    _Spec("loss, last", "number", "low", _last(metrics.TRAIN_LOSS)),
    _Spec("loss, best", "number", "low", _best(metrics.TRAIN_LOSS, "low")),
    _Spec(f"loss, last {WINDOW}", "number", "low", _recent(metrics.TRAIN_LOSS)),
    _Spec("validation loss, last", "number", "low", _last("val/loss")),
    _Spec("validation loss, best", "number", "low", _best("val/loss", "low")),
    _Spec("step time, median", "seconds", "low", _step_time),
    _Spec("tokens/s and GPU, median", "count", "high", _median(metrics.THROUGHPUT)),
    _Spec("GPU memory, peak", "bytes", None, _of_machine(lambda use: use.gpu_bytes)),
    _Spec("GPU use, mean", "percent", None, _of_machine(lambda use: use.gpu_percent)),
    _Spec("host memory, peak", "bytes", None, _of_machine(lambda use: use.host_bytes)),
    _Spec("wall time", "duration", None, lambda record, until: (record.seconds(until), None)),
    _Spec("judge calls", "count", None, _judge_calls),
    _Spec("checkpoint", "text", None, _checkpoint),
)


_ROUNDING = 1e-9
"""An interval that is narrower, relative to its mean, comes from rounding."""


def format_value(value: Value, unit: str) -> str:
    """Format a measured value in its unit."""
    if value is None or isinstance(value, str):
        return value or MISSING
    if unit == "seconds":
        return format_seconds(value)
    if unit == "duration":
        return format_duration(value)
    if unit == "bytes":
        return f"{value / 2**30:.2f} GiB"
    if unit == "percent":
        return f"{value:.0f}%"
    return format_whole(value) if unit == "count" else format_number(value)


def result_parts(row: Measure, baseline: int) -> Iterator[list[str]]:
    """Of each column: the value with half its interval, the difference from the baseline in
    parentheses, and the step."""
    pairs = zip(row.entries, row.comparisons(baseline), strict=True)
    for index, (entry, other) in enumerate(pairs):
        parts = [format_value(entry.value, row.unit) + format_half(entry.estimate, row.unit)]
        if other is not None and index != baseline:
            estimate = other.difference
            delta = format_delta(estimate.mean, row.unit) + format_half(estimate, row.unit)
            parts.append(f"({delta})")
        yield [*parts, *([] if entry.step is None else [f"at {entry.step}"])]


def format_delta(value: float, unit: str) -> str:
    """``+0.31``, ``-4:07``; ``0`` if the difference rounds to zero."""
    size = format_value(abs(value), unit)
    return "0" if size == format_value(0.0, unit) else ("+" if value > 0 else "-") + size


def format_half(estimate: Estimate | None, unit: str) -> str:
    """`` ±0.048``: half of a 95% interval with two digits; empty without one, or without width."""
    half = None if estimate is None else estimate.half_width
    if estimate is None or not half or half < _ROUNDING * abs(estimate.mean):
        return ""
    return f" ±{half:.2g}" if unit == "number" else f" ±{format_value(half, unit)}"
