"""The checkpoints of a run as ``sweep`` measured them: a mean with its interval for each step."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.base import jsonl
from engine.run.rundir import RunDir


@dataclass(frozen=True)
class SweepPoint:
    """One checkpoint; step 0 is the starting model. ``low`` and ``high``: the 95% interval, None
    with fewer than two items. ``n``: answers with a score; ``unscored``: answers without."""

    step: int
    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    unscored: int = 0


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
    """The last sweep of the run; None without one, or for a file that is not one. What is no point
    is left out."""
    raw = jsonl.read_json(sweep_path(run)) or {}
    listed = raw.get("points")
    if not isinstance(listed, list) or not (sweep := jsonl.convert({**raw, "points": ()}, Sweep)):
        return None
    points = filter(None, (jsonl.convert(each, SweepPoint) for each in listed))
    return replace(sweep, points=tuple(sorted(points, key=lambda point: point.step)))
