"""The table of an ablation: from the directories of its runs to differences and verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.ablations.plan import BASE, AblationPlan, Job, current_run
from engine.history import metrics
from engine.history.train_log import Step, read_steps
from engine.runs.kinds import Kind
from engine.runs.state import RunState, observed_state
from engine.statistics.comparison import Comparison, adjust_for_many, compare_paired
from engine.statistics.intervals import Estimate, estimate_mean

FEWEST_SEEDS = 2
"""With one seed there is a difference, and no verdict."""


@dataclass(frozen=True)
class SeedRun:
    """One run of an arm. ``values`` are its validations by step; ``times`` the seconds since its
    first step at which each step ended."""

    run: str
    seed: int
    state: RunState | None
    values: Mapping[int, float]
    times: Mapping[int, float]

    @property
    def is_planned(self) -> bool:
        return self.state is None


@dataclass(frozen=True)
class ArmRow:
    """One row. The difference is that of the arm from the base, seed by seed, at the last step
    that both runs of a seed have validated; ``at_equal_hours`` the same within the time that the
    faster of the two took."""

    name: str
    runs: tuple[SeedRun, ...]
    mean: Estimate | None
    comparison: Comparison | None
    at_equal_hours: Estimate | None
    steps: tuple[int, ...]
    """The step of each compared pair."""
    stopped: str | None = None
    """Why no more runs of this arm are started."""

    @property
    def verdict(self) -> str | None:
        """None for the base and below two seeds."""
        if self.comparison is None or self.comparison.difference.units < FEWEST_SEEDS:
            return None
        return self.comparison.verdict

    def to_json(self) -> dict[str, Any]:
        difference = self.comparison.difference if self.comparison else None
        return {
            "name": self.name,
            "runs": [run.run for run in self.runs if not run.is_planned],
            "mean": self.mean.mean if self.mean else None,
            "difference": difference.mean if difference else None,
            "ci": _interval(difference),
            "difference_at_equal_hours": self.at_equal_hours.mean if self.at_equal_hours else None,
            "correlation": self.comparison.correlation if self.comparison else None,
            "seeds": len(self.steps) if self.comparison else len(_measured(self.runs)),
            "steps": list(self.steps),
            "states": {run.run: run.state.state for run in self.runs if run.state},
            "verdict": self.verdict,
            "needed_seeds": self.comparison.needed if self.comparison else None,
            "stopped": self.stopped,
        }


def metric_of(kind: Kind) -> str:
    """What arms are compared by: the validation of this kind of run."""
    return metrics.VALIDATION_REWARD if kind.has_rollouts else metrics.VALIDATION_LOSS


def read_runs(plan: AblationPlan, root: Path, metric: str) -> dict[str, tuple[SeedRun, ...]]:
    """The runs of each arm, in the order of the seeds; planned ones included."""
    runs: dict[str, list[SeedRun]] = {arm.name: [] for arm in plan.arms}
    for job in plan.jobs():
        runs[job.arm].append(_seed_run(job, root, metric))
    return {name: tuple(listed) for name, listed in runs.items()}


def make_table(
    plan: AblationPlan,
    runs: Mapping[str, Sequence[SeedRun]],
    *,
    lower_is_better: bool,
    stopped: Mapping[str, str] | None = None,
) -> list[ArmRow]:
    """One row per arm, the base first. The p values of all arms are adjusted together (Holm)."""
    reasons = stopped or {}
    base = runs[BASE]
    rows = [_row(arm.name, runs[arm.name], base, reasons.get(arm.name)) for arm in plan.arms]
    compared = [row.comparison for row in rows if row.comparison is not None]
    if lower_is_better:
        compared = [_flipped(comparison) for comparison in compared]
    adjusted = iter(adjust_for_many(compared))
    if not lower_is_better:
        return [replace(r, comparison=next(adjusted)) if r.comparison else r for r in rows]
    return [replace(r, comparison=_flipped(next(adjusted))) if r.comparison else r for r in rows]


def _row(
    name: str, runs: Sequence[SeedRun], base: Sequence[SeedRun], stopped: str | None
) -> ArmRow:
    last = [run.values[max(run.values)] for run in _measured(runs)]
    mean = estimate_mean(last) if last else None
    pairs = [pair for pair in zip(base, runs, strict=True) if _common_step(*pair) is not None]
    if name == BASE or not pairs:
        return ArmRow(name, tuple(runs), mean, None, None, (), stopped)
    steps = tuple(step for pair in pairs if (step := _common_step(*pair)) is not None)
    at_steps = [
        (of_base.values[step], run.values[step])
        for (of_base, run), step in zip(pairs, steps, strict=True)
    ]
    comparison = compare_paired([left for left, _ in at_steps], [right for _, right in at_steps])
    hours = [difference for pair in pairs if (difference := _at_equal_time(*pair)) is not None]
    return ArmRow(
        name,
        tuple(runs),
        mean,
        comparison,
        estimate_mean(hours) if hours else None,
        steps,
        stopped,
    )


def _measured(runs: Sequence[SeedRun]) -> list[SeedRun]:
    return [run for run in runs if run.values]


def _common_step(base: SeedRun, run: SeedRun) -> int | None:
    return max(base.values.keys() & run.values.keys(), default=None)


def _at_equal_time(base: SeedRun, run: SeedRun) -> float | None:
    """The difference of the last validations within the time that both have trained."""
    limit = min(max(base.times.values(), default=0.0), max(run.times.values(), default=0.0))
    left, right = (_last_within(side, limit) for side in (base, run))
    return None if left is None or right is None else right - left


def _last_within(run: SeedRun, seconds: float) -> float | None:
    steps = [step for step in run.values if run.times.get(step, seconds + 1) <= seconds]
    return run.values[max(steps)] if steps else None


def _seed_run(job: Job, root: Path, metric: str) -> SeedRun:
    run = current_run(job, root)
    if run is None:
        return SeedRun(job.run, job.seed, None, {}, {})
    steps = list(read_steps(run.train_log))
    values, times = dict(_values(steps, metric)), dict(_times(steps))
    return SeedRun(run.id, job.seed, observed_state(run), values, times)


def _values(steps: Sequence[Step], metric: str) -> Iterator[tuple[int, float]]:
    for step in steps:
        value = step.metrics.get(metric)
        if value is not None and step.step > 0:
            yield step.step, value


def _times(steps: Sequence[Step]) -> Iterator[tuple[int, float]]:
    """Seconds of training at each step; a pause between attempts does not count."""
    passed, before = 0.0, None
    for step in steps:
        if before is not None and step.attempt == before.attempt:
            passed += max(0.0, step.time - before.time)
        before = step
        yield step.step, passed


def _flipped(comparison: Comparison) -> Comparison:
    """The comparison of the negated values."""
    estimate = comparison.difference
    low = None if estimate.high is None else -estimate.high
    high = None if estimate.low is None else -estimate.low
    return replace(
        comparison, difference=replace(estimate, mean=-estimate.mean, low=low, high=high)
    )


def _interval(estimate: Estimate | None) -> list[float] | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return [estimate.low, estimate.high]
