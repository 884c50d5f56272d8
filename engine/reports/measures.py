"""The results of runs side by side: rows of a comparison, from numbers in the files of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from engine.history import metrics
from engine.reports.entry import WINDOW
from engine.reports.run_record import RunRecord

Better = Literal["high", "low"]
Unit = Literal["number", "seconds", "duration", "count", "text"]
Value = float | str | None
Cell = tuple[Value, int | None]
"""A value, and the step that it belongs to, if it belongs to one step."""

_NO_VALUE: Cell = (None, None)


@dataclass(frozen=True)
class Measure:
    """One quantity of every run. ``better``: whether high or low values are good, if either.

    ``steps`` holds the step of each value that belongs to one step.
    """

    name: str
    unit: Unit
    better: Better | None
    values: tuple[Value, ...]
    steps: tuple[int | None, ...]

    def best(self) -> frozenset[int]:
        """The indices of the runs with the best value; empty if all values are equal."""
        numbers = {i: v for i, v in enumerate(self.values) if isinstance(v, float)}
        if self.better is None or len(set(numbers.values())) < 2:
            return frozenset()
        best = (max if self.better == "high" else min)(numbers.values())
        return frozenset(i for i, value in numbers.items() if value == best)

    def deltas(self, baseline: int) -> tuple[float | None, ...]:
        """The differences from the run at ``baseline``; None if either value is missing."""
        base = self.values[baseline]
        return tuple(
            value - base if isinstance(value, float) and isinstance(base, float) else None
            for value in self.values
        )

    def to_json(self, ids: Sequence[str], baseline: int) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "values": dict(zip(ids, self.values, strict=True)),
            "steps": {run: s for run, s in zip(ids, self.steps, strict=True) if s is not None},
            "deltas": dict(zip(ids, self.deltas(baseline), strict=True)),
            "best": [run for index, run in enumerate(ids) if index in self.best()],
        }


def measure_run(record: RunRecord, until: int | None = None) -> tuple[Cell, ...]:
    """All measures of one run; with ``until`` up to that step."""
    return tuple(spec.read(record, until) for spec in _SPECS)


def measures(by_run: Sequence[tuple[Cell, ...]]) -> list[Measure]:
    """The measures of several runs as rows, without rows that have no value at all."""
    rows = []
    for spec, cells in zip(_SPECS, zip(*by_run, strict=True), strict=True):
        values, steps = zip(*cells, strict=True)
        if any(value is not None for value in values):
            rows.append(Measure(spec.name, spec.unit, spec.better, values, steps))
    return rows


@dataclass(frozen=True)
class _Spec:
    name: str
    unit: Unit
    better: Better | None
    read: Callable[[RunRecord, int | None], Cell]


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
    _Spec("reward, last", "number", "high", _last(metrics.REWARD_MEAN)),
    _Spec("reward, best", "number", "high", _best(metrics.REWARD_MEAN, "high")),
    _Spec(f"reward, last {WINDOW}", "number", "high", _recent(metrics.REWARD_MEAN)),
    _Spec(f"std in group, last {WINDOW}", "number", None, _recent(metrics.REWARD_STD)),
    _Spec("validation, last", "number", "high", _last(metrics.VALIDATION_REWARD)),
    _Spec("validation, best", "number", "high", _best(metrics.VALIDATION_REWARD, "high")),
    _Spec("loss, last", "number", "low", _last(metrics.TRAIN_LOSS)),
    _Spec("loss, best", "number", "low", _best(metrics.TRAIN_LOSS, "low")),
    _Spec(f"loss, last {WINDOW}", "number", "low", _recent(metrics.TRAIN_LOSS)),
    _Spec("validation loss, last", "number", "low", _last("val/loss")),
    _Spec("validation loss, best", "number", "low", _best("val/loss", "low")),
    _Spec("step time, median", "seconds", "low", _step_time),
    _Spec("wall time", "duration", None, lambda record, until: (record.seconds(until), None)),
    _Spec("judge calls", "count", None, _judge_calls),
    _Spec("checkpoint", "text", None, _checkpoint),
)
