"""Metric series of a run or of a metrics file, by canonical name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import UsageError, unknown_name
from engine.formats.external_run import require_steps
from engine.history.metrics import SIBLINGS, canonical
from engine.history.train_log import Step, history, read_steps
from engine.runs.rundir import RunDir, find_run

Series = list[tuple[int, float | None]]


def load_steps(
    run_or_path: str, root: Path, metrics: Sequence[str] = (), as_format: str | None = None
) -> list[Step]:
    """The steps of a run (by id), a run directory, or a file or folder of any known format.

    Naming ``metrics`` keeps only those of every step, for the sake of memory.
    """
    steps = _steps(run_or_path, root, as_format)
    if metrics:
        steps = _slim(steps, {name for metric in metrics for name in _meanings(metric)})
    return history(steps)


def is_external(run_or_path: str) -> bool:
    """Whether it names a file or folder that is no run directory.

    UsageError for a path, rather than a run's id, that does not exist.
    """
    path = Path(run_or_path)
    if len(path.parts) > 1 and not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    return path.exists() and not RunDir(path).is_one()


def names(steps: Iterable[Step]) -> list[str]:
    """Every metric that occurs, sorted."""
    return sorted({name for step in steps for name in step.metrics})


def series(steps: Sequence[Step], metric: str) -> Series:
    """``(step, value)`` of one metric; UsageError when no step has it."""
    for name in _meanings(metric):
        found = [(step.step, step.metrics[name]) for step in steps if name in step.metrics]
        if found:
            return found
    raise unknown_name("metric", metric, names(steps))


def _meanings(metric: str) -> tuple[str, ...]:
    """The canonical names that a person may mean, the likeliest first."""
    name = canonical(metric)
    return (name, *SIBLINGS.get(name, ()))


def _steps(run_or_path: str, root: Path, as_format: str | None) -> Iterator[Step]:
    path = Path(run_or_path)
    if is_external(run_or_path):
        yield from require_steps(path, as_format)
    elif path.is_dir():
        yield from read_steps(RunDir(path).train_log)
    else:
        yield from read_steps(find_run(root, run_or_path).train_log)


def _slim(steps: Iterable[Step], wanted: Container[str]) -> Iterator[Step]:
    """Steps with the wanted metrics, and of the others only where each occurs first."""
    seen: set[str] = set()
    for step in steps:
        kept = {k: v for k, v in step.metrics.items() if k in wanted or k not in seen}
        seen.update(step.metrics)
        yield replace(step, metrics=kept)
