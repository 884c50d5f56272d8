"""The checkpoints of a run as ``sweep`` measured them: a mean with its interval for each step."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from engine.base import typed
from engine.base.typed import Integer, Number
from engine.run.run import Run


class SweepPoint(Struct, frozen=True):
    """One checkpoint; step 0 is the starting model. ``low`` and ``high``: the 95% interval, None
    with fewer than two items. ``n``: answers with a score; ``unscored``: answers without."""

    step: Integer
    mean: Number
    low: Number | None = None
    high: Number | None = None
    n: Integer = 0
    unscored: Integer = 0


class Sweep(Struct, frozen=True):
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


def sweep_path(run: Run) -> Path:
    return run.path / "sweep.json"


def write_sweep(run: Run, sweep: Sweep) -> None:
    """Replace what an earlier sweep of the run has written."""
    typed.write_record(sweep_path(run), sweep)


def read_sweep(run: Run) -> Sweep | None:
    """The last sweep of the run; None without one, or for a file that is not one. What is no point
    is left out."""
    sweep = typed.read_record(sweep_path(run), Sweep)
    return sweep and replace(sweep, points=tuple(sorted(sweep.points, key=lambda p: p.step)))
