"""Everything about an ablation that its plan and its runs show, read from the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.measure.ablations.measure import find_measure, require_logged, why_incomparable
from engine.measure.ablations.plan import BASE, AblationPlan
from engine.measure.ablations.runner import (
    find_cause,
    given_up,
    is_running,
    read_refusals,
    stops_failing,
    was_interrupted,
)
from engine.measure.ablations.table import ArmRow, KnownRuns, make_table, read_runs
from engine.run.run import Run
from engine.run.state import RunState

_SCORED_APART = (
    "its reward function has other settings than the base's: the metric compares the arms only if "
    "both compute it alike"
)


@dataclass(frozen=True)
class AblationReport:
    """``measure``: what the arms are compared by. ``is_running``: a process launches the runs that
    are missing. ``baseline``: the arm that the others are compared with."""

    plan: AblationPlan
    measure: str
    rows: Sequence[ArmRow]
    is_running: bool
    lower_is_better: bool = False
    baseline: str = BASE

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        runs = [run for row in self.rows for run in row.runs]
        return sum(run.state is not None and run.state.has_ended for run in runs)

    @property
    def pending(self) -> int:
        """How many runs are still to end, without those of arms that were given up. One that was
        interrupted, as by a stop, is: the ablation resumes it."""
        states = [run.state for row in self.rows if row.stopped is None for run in row.runs]
        return sum(
            state is None or not state.has_ended or was_interrupted(state) for state in states
        )

    @property
    def went_well(self) -> bool:
        """Whether every run did every step, except those of arms that were given up as worse."""
        rows = [row for row in self.rows if not (self.plan.stop_worse and row.verdict == "worse")]
        runs = [run for row in rows for run in row.runs]
        return all(run.state is not None and run.state.went_well for run in runs)

    @property
    def total(self) -> int:
        return len(self.plan.arms) * len(self.plan.seeds)

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "ablation": plan.id,
            "dir": str(plan.folder),
            "metric": self.measure,
            "steps": plan.steps,
            "seeds": list(plan.seeds),
            "running": self.is_running,
            "arms": [row.to_json() for row in self.rows],
        }


class ReportReader:
    """Reads the report of an ablation repeatedly, and only what has changed."""

    def __init__(self, plan: AblationPlan, root: Path, metric: str | None = None) -> None:
        """``root`` is the folder of the runs; ``metric`` what to compare instead of the validation
        reward or loss."""
        self._plan, self._root = plan, root
        self._measure = find_measure(plan, metric)
        self._incomparable = why_incomparable(plan) if metric is None else {}
        self._known: KnownRuns = {}
        self._causes: dict[object, str] = {}

    def read(self, baseline: str = BASE) -> AblationReport:
        """The report now. ``baseline``: the arm that the others are compared with."""
        plan, root, lower = self._plan, self._root, self._measure.lower_is_better
        runs = read_runs(plan, root, self._measure, self._known)
        stop = stops_failing(plan)
        failed = given_up(plan, root, stop=stop, known=self._known, find=self._find_cause)
        rows = make_table(
            plan,
            runs,
            lower_is_better=lower,
            stopped={**read_refusals(plan), **failed},
            incomparable=self._incomparable,
            baseline=baseline,
        )
        return AblationReport(
            plan, self._measure.title, rows, is_running(plan.folder), lower, baseline
        )

    def _find_cause(self, run: Run, state: RunState) -> str:
        key = (run.id, state.attempt, state.ended)
        if key not in self._causes:
            self._causes[key] = find_cause(run, state)
        return self._causes[key]


def read_report(plan: AblationPlan, root: Path, metric: str | None = None) -> AblationReport:
    """The report of a written plan, as ``ReportReader`` reads it."""
    if metric is None:
        return ReportReader(plan, root).read()
    if plan.stop_worse:
        raise UsageError(f"{plan.id} gives up arms by its own metric (--stop-worse): no --metric")
    require_logged(plan, root, metric)
    report = ReportReader(plan, root, metric).read()
    others = why_incomparable(plan)
    rows = [
        replace(row, remark=_SCORED_APART) if row.name in others else row for row in report.rows
    ]
    return replace(report, rows=rows)
