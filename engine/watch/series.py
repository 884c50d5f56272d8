"""Metric series of a run or of a metrics file, by canonical name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from engine import jsonl
from engine.errors import UsageError, unknown_name
from engine.runs.rundir import RunDir, find_run
from engine.watch.metrics import canonical
from engine.watch.train_log import Step, history, read_steps, verl_metrics

Series = list[tuple[int, float | None]]


def load_steps(run_or_path: str, root: Path) -> list[Step]:
    """The steps of a run (by id), a run directory, a ``train_log.jsonl`` or verl's metrics file."""
    path = Path(run_or_path)
    if (path / "manifest.json").exists():
        return history(read_steps(RunDir(path).train_log))
    if path.is_file():
        return _steps_of_file(path)
    return history(read_steps(find_run(root, run_or_path).train_log))


def names(steps: Iterable[Step]) -> list[str]:
    """Every metric that occurs, sorted."""
    return sorted({name for step in steps for name in step.metrics})


def series(steps: Sequence[Step], metric: str) -> Series:
    """``(step, value)`` of one metric; UsageError when no step has it."""
    name = canonical(metric)
    found = [(step.step, step.metrics[name]) for step in steps if name in step.metrics]
    if not found:
        raise unknown_name("metric", metric, names(steps))
    return found


def _steps_of_file(path: Path) -> list[Step]:
    steps = []
    for record in jsonl.read(path):
        data, number = record.get("data"), jsonl.integer(record.get("step"))
        if isinstance(data, dict) and number is not None:
            steps.append(Step(number, 1, 0.0, verl_metrics(data)))
        elif (step := Step.from_json(record)) is not None:
            steps.append(step)
    if not steps:
        raise UsageError(f"{path}: holds no step of a train_log.jsonl or a verl metrics file")
    return steps
