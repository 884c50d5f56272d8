"""The checkpoints of a run as ``sweep`` measured them: a mean with its interval for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.runs.rundir import RunDir


@dataclass(frozen=True)
class SweepPoint:
    """One checkpoint; step 0 is the starting model. ``low`` and ``high``: the 95% interval, None
    with fewer than two items. ``n``: answers with a score; ``unscored``: answers without."""

    step: int
    mean: float
    low: float | None
    high: float | None
    n: int
    unscored: int


@dataclass(frozen=True)
class Sweep:
    """``evaluation``: the ID of the evaluation with the answers. ``points`` are in order."""

    evaluation: str
    metric: str
    points: tuple[SweepPoint, ...]
    lower_is_better: bool = False
    """Whether ``metric`` is a loss."""

    @property
    def best(self) -> SweepPoint | None:
        """The point with the best mean, the first of equal ones."""
        choose = min if self.lower_is_better else max
        return choose(self.points, key=lambda point: point.mean, default=None)


def sweep_path(run: RunDir) -> Path:
    return run.path / "sweep.json"


def write_sweep(run: RunDir, sweep: Sweep) -> None:
    """Replace what an earlier sweep of the run has written."""
    jsonl.write_json(sweep_path(run), {"v": 1, **asdict(sweep)})


def read_sweep(run: RunDir) -> Sweep | None:
    """The last sweep of the run; None without one, or for a file that is not one."""
    raw = jsonl.read_json(sweep_path(run)) or {}
    evaluation, metric = jsonl.line(raw.get("evaluation")), jsonl.line(raw.get("metric"))
    points = raw.get("points")
    if evaluation is None or metric is None or not isinstance(points, list):
        return None
    return Sweep(evaluation, metric, _read_points(points), raw.get("lower_is_better") is True)


def _read_points(raw: Sequence[Any]) -> tuple[SweepPoint, ...]:
    points = []
    for entry in raw:
        fields = entry if isinstance(entry, dict) else {}
        step, mean = jsonl.integer(fields.get("step")), jsonl.number(fields.get("mean"))
        if step is not None and mean is not None:
            low, high = jsonl.number(fields.get("low")), jsonl.number(fields.get("high"))
            counts = (jsonl.integer(fields.get(name)) or 0 for name in ("n", "unscored"))
            points.append(SweepPoint(step, mean, low, high, *counts))
    return tuple(sorted(points, key=lambda point: point.step))
