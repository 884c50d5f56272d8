"""Metric series of a run or of an external log, by canonical name."""

from __future__ import annotations

import shlex
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError, unknown_name
from engine.logs.formats.external_run import require_steps
from engine.run.history.metrics import (
    DASHBOARD_NAMES,
    MOST_USED,
    NOT_LOGGED,
    SIBLINGS,
    canonical,
)
from engine.run.run import Run, find_run_not_file
from engine.run.state import describe, observed_state

if TYPE_CHECKING:  # numpy: ``is_external`` does without.
    from collections.abc import Sequence

    from engine.run.history.columns import Columns

Series = list[tuple[int, float | None]]

_STEPS_AT_ONCE = 512


def read_columns(
    run_or_path: str, root: Path, metrics: Sequence[str] = (), as_format: str | None = None
) -> Columns:
    """The history of a run (by ID), a run directory, or a file or folder of any known format.

    ``metrics`` names those to keep, for the sake of memory (default: all).
    """
    from engine.run.history.columns import Batch, Columns

    wanted = {name for metric in metrics for name in meanings_of(metric)}
    if not is_external(run_or_path):
        return Columns.read(_find_run(run_or_path, root).train_log, wanted)
    columns, steps = Columns(), require_steps(Path(run_or_path), as_format)
    while part := list(islice(steps, _STEPS_AT_ONCE)):
        batch = Batch.from_steps(part)
        columns.merge(batch.with_metrics(wanted, columns.names) if wanted else batch)
    return columns


def _find_run(run_or_path: str, root: Path) -> Run:
    path = Path(run_or_path)
    return Run(path) if path.is_dir() else find_run_not_file(root, run_or_path)


def explain_no_steps(run_or_path: str, root: Path) -> str:
    """What to say of a run or log that has no values; of a run, with its state."""
    if is_external(run_or_path):
        return "no step was logged"
    state = observed_state(_find_run(run_or_path, root))
    return f"no step was logged{'' if state.has_ended else ' yet'} ({describe(state)})"


def is_external(run_or_path: str) -> bool:
    """Whether it names a file or folder that is no run directory.

    UsageError for a path, rather than a run's id, that does not exist.
    """
    path = Path(run_or_path)
    if len(path.parts) > 1 and not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    return path.exists() and not Run(path).is_one()


def names(columns: Columns) -> list[str]:
    """Every metric that a step has, sorted."""
    return [name for name in columns.names if len(columns.get(name))]


def series(columns: Columns, metric: str, source: str = "RUN") -> Series:
    """``(step, value)`` of one metric, None for NaN; UsageError when no step has it.

    ``source`` is the run or path of ``columns``, for the error.
    """
    for name in meanings_of(metric):
        if len(column := columns.get(name)):
            steps, values = column.steps.tolist(), column.values.tolist()
            return [
                (int(step), None if value != value else value)
                for step, value in zip(steps, values, strict=True)
            ]
    raise unknown_metric(metric, names(columns), source)


def why_not_logged(columns: Columns, metric: str) -> str | None:
    """Why no step has a metric that is known by this name; None if a step has it, or if the name
    is unknown."""
    if any(len(columns.get(name)) for name in meanings_of(metric)):
        return None
    return NOT_LOGGED.get(metric)


def unknown_metric(metric: str, known: Sequence[str], source: str) -> UsageError:
    """An error for a metric that ``source``, a run or a path, has not logged."""
    listing = f"grubrics-tui metrics {shlex.quote(source)}"
    return unknown_name("metric", metric, known, first=MOST_USED, all_by=listing)


def meanings_of(metric: str) -> tuple[str, ...]:
    """The canonical names that a person may mean, the likeliest first."""
    name = canonical(metric)
    return (name, *SIBLINGS.get(name, ()), *DASHBOARD_NAMES.get(metric, ()))
