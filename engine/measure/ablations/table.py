"""The table of an ablation: from the directories of its runs to differences and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.intervals import Estimate, estimate_mean
from engine.base.paired_comparison import (
    Comparison,
    adjust_for_many,
    alpha_of_looks,
    compare_paired,
)
from engine.measure.ablations.measure import Measure
from engine.measure.ablations.plan import BASE, AblationPlan, Job, current_run
from engine.run.history import metrics
from engine.run.history.train_log import Step, read_steps
from engine.run.state import RunState, observed_state

ALPHA = 0.05
FEWEST_SEEDS = 2
"""With one seed there is a difference, and no verdict."""


@dataclass(frozen=True)
class SeedRun:
    """One run of an arm. ``values`` are its validations by step; ``times`` the seconds since its
    first step at which each step ended, ``tokens`` those trained on until then; empty where the
    trainer does not log them."""

    run: str
    seed: int
    state: RunState | None
    values: Mapping[int, float]
    times: Mapping[int, float]
    tokens: Mapping[int, float] = field(default_factory=dict)

    @property
    def is_planned(self) -> bool:
        return self.state is None


@dataclass(frozen=True)
class ArmRow:
    """One row. The difference is that of the arm from the baseline, seed by seed, at the last step
    that both runs of a seed have validated; ``at_equal_hours`` the same within the time that the
    faster of the two took, and ``at_equal_tokens`` within the tokens of the one with fewer."""

    name: str
    runs: tuple[SeedRun, ...]
    mean: Estimate | None
    comparison: Comparison | None
    at_equal_hours: Estimate | None
    at_equal_tokens: Estimate | None
    steps: tuple[int, ...]
    """The step of each compared pair."""
    stopped: str | None = None
    """Why no more runs of this arm are started."""
    incomparable: str | None = None
    """Why this arm has no difference from the baseline."""
    remark: str | None = None
    """What limits the comparison of this arm."""

    @property
    def verdict(self) -> str | None:
        """None for the baseline and below two seeds."""
        if self.comparison is None or self.comparison.difference.units < FEWEST_SEEDS:
            return None
        return self.comparison.verdict

    @property
    def is_preliminary(self) -> bool:
        """Whether runs of this arm are still to end. Verdicts that are looked at after every seed
        find a difference more often than the level says."""
        return self.stopped is None and any(
            run.state is None or not run.state.has_ended for run in self.runs
        )

    def to_json(self) -> dict[str, Any]:
        difference = self.comparison.difference if self.comparison else None
        return {
            "name": self.name,
            "runs": [run.run for run in self.runs if not run.is_planned],
            "mean": self.mean and self.mean.mean,
            "difference": difference and difference.mean,
            "ci": difference and difference.interval,
            "difference_at_equal_hours": self.at_equal_hours and self.at_equal_hours.mean,
            "difference_at_equal_tokens": self.at_equal_tokens and self.at_equal_tokens.mean,
            "correlation": self.comparison and self.comparison.correlation,
            "seeds": len(self.steps) if self.comparison else len(_measured(self.runs)),
            "steps": list(self.steps),
            "states": {run.run: run.state.word for run in self.runs if run.state},
            "verdict": self.verdict,
            "preliminary": self.is_preliminary,
            "needed_seeds": self.comparison and self.comparison.needed,
            "stopped": self.stopped,
            "incomparable": self.incomparable,
            "remark": self.remark,
        }


Budget = Mapping[int, float]
"""What a run has spent at the end of each step: seconds or tokens."""

KnownRuns = dict[str, tuple[object, SeedRun]]
"""By run ID: the stamp of its files, and the run as read with this stamp."""


def read_runs(
    plan: AblationPlan, root: Path, measure: Measure, known: KnownRuns | None = None
) -> dict[str, tuple[SeedRun, ...]]:
    """The runs of each arm, in the order of the seeds; planned ones included.

    ``known`` is filled; with the same one, only runs whose files have changed are read again.
    """
    known = {} if known is None else known
    runs: dict[str, list[SeedRun]] = {arm.name: [] for arm in plan.arms}
    for job in plan.jobs():
        runs[job.arm].append(_seed_run(job, root, measure, known))
    return {name: tuple(listed) for name, listed in runs.items()}


def make_table(
    plan: AblationPlan,
    runs: Mapping[str, Sequence[SeedRun]],
    *,
    lower_is_better: bool,
    stopped: Mapping[str, str] | None = None,
    incomparable: Mapping[str, str] | None = None,
    baseline: str = BASE,
) -> list[ArmRow]:
    """One row per arm, the base first. The p values of all arms are adjusted together (Holm); those
    of arms that have no p value yet count already.

    ``baseline``: the arm that the others are compared with. ``incomparable`` names the arms that
    cannot be compared with the base; one of them is a baseline for no other arm.
    """
    reasons = dict(incomparable or {})
    if (reason := reasons.pop(baseline, None)) is not None:
        reasons = {arm.name: reason for arm in plan.arms if arm.name != baseline}
    rows = [_row(plan, arm.name, runs, reasons, baseline) for arm in plan.arms]
    rows = [replace(row, stopped=(stopped or {}).get(row.name)) for row in rows]
    compared = [row.comparison for row in rows if row.comparison is not None]
    awaited = sum(_is_awaited(row) for row in rows if row.name != baseline)
    adjusted = iter(adjust_for_many(compared, more=awaited, lower_is_better=lower_is_better))
    return [replace(r, comparison=next(adjusted)) if r.comparison else r for r in rows]


def _is_awaited(row: ArmRow) -> bool:
    """Whether the arm has no p value yet, and runs that may give it one."""
    is_over = row.stopped or row.incomparable or not row.is_preliminary
    return not is_over and (row.comparison is None or row.comparison.p is None)


def find_worse(
    plan: AblationPlan, runs: Mapping[str, Sequence[SeedRun]], *, lower_is_better: bool
) -> dict[str, str]:
    """The arms that a plan with ``stop_worse`` gives up, with the reason.

    Bonferroni over all arms of the plan, not over those measured so far: an arm that was given up
    stays so whatever the others show.
    """
    if not plan.stop_worse:
        return {}
    sign, reasons = -1 if lower_is_better else 1, {}
    for arm in plan.arms[1:]:
        comparison = _row(plan, arm.name, runs, {}).comparison
        if comparison is None or comparison.p is None or sign * comparison.difference.mean >= 0:
            continue
        if comparison.p * (len(plan.arms) - 1) <= ALPHA:
            reasons[arm.name] = f"worse than the base after {comparison.difference.units} seeds"
    return reasons


def _row(
    plan: AblationPlan,
    name: str,
    all_runs: Mapping[str, Sequence[SeedRun]],
    incomparable: Mapping[str, str],
    baseline: str = BASE,
) -> ArmRow:
    runs, base = tuple(all_runs[name]), all_runs[baseline]
    last = [run.values[max(run.values)] for run in _measured(runs)]
    mean = estimate_mean(last) if last else None
    pairs = [pair for pair in zip(base, runs, strict=True) if _common_step(*pair) is not None]
    if name == baseline or name in incomparable or not pairs:
        return ArmRow(name, runs, mean, None, None, None, (), incomparable=incomparable.get(name))
    steps = tuple(step for pair in pairs if (step := _common_step(*pair)) is not None)
    at_steps = [
        (of_base.values[step], run.values[step])
        for (of_base, run), step in zip(pairs, steps, strict=True)
    ]
    comparison = compare_paired([left for left, _ in at_steps], [right for _, right in at_steps])
    at_hours = _at_equal(((left.times, right.times) for left, right in pairs), pairs)
    at_tokens = _at_equal(((left.tokens, right.tokens) for left, right in pairs), pairs)
    return ArmRow(name, runs, mean, _at_this_look(plan, comparison), at_hours, at_tokens, steps)


def _at_this_look(plan: AblationPlan, comparison: Comparison) -> Comparison:
    """The comparison with the p value that holds although there are looks after every seed.

    A look tests at its share of the error budget, so its p value is enlarged by as much.
    """
    seeds, looked = len(plan.seeds), comparison.difference.units
    if not plan.stop_worse or comparison.p is None or looked < FEWEST_SEEDS:
        return comparison
    looks = range(FEWEST_SEEDS, seeds + 1)
    shares = alpha_of_looks([look / seeds for look in looks], ALPHA)
    share = shares[looked - FEWEST_SEEDS]
    return replace(comparison, p=min(1.0, comparison.p * ALPHA / share) if share else 1.0)


def _measured(runs: Sequence[SeedRun]) -> list[SeedRun]:
    return [run for run in runs if run.values]


def _common_step(base: SeedRun, run: SeedRun) -> int | None:
    return max(base.values.keys() & run.values.keys(), default=None)


def _at_equal(
    spent: Iterable[tuple[Budget, Budget]], pairs: Sequence[tuple[SeedRun, SeedRun]]
) -> Estimate | None:
    """The difference of the last validations within what both runs of a pair have spent.

    None where no pair has a validation within it.
    """
    differences = []
    for (of_base, of_run), (base, run) in zip(spent, pairs, strict=True):
        limit = min(max(of_base.values(), default=0.0), max(of_run.values(), default=0.0))
        left, right = _last_within(base, of_base, limit), _last_within(run, of_run, limit)
        if left is not None and right is not None:
            differences.append(right - left)
    return estimate_mean(differences) if differences else None


def _last_within(run: SeedRun, spent: Budget, limit: float) -> float | None:
    steps = [step for step in run.values if step in spent and spent[step] <= limit]
    return run.values[max(steps)] if steps else None


def _seed_run(job: Job, root: Path, measure: Measure, known: KnownRuns) -> SeedRun:
    run = current_run(job, root)
    if run is None:
        return SeedRun(job.run, job.seed, None, {}, {})
    state, stamp = observed_state(run), measure.stamp(run)
    seen, before = known.get(run.id, (None, None))
    if before is not None and seen == stamp:
        return replace(before, state=state)
    steps = list(read_steps(run.train_log))
    values, times, tokens = measure.read(run, steps), dict(_times(steps)), dict(_tokens(steps))
    read = SeedRun(run.id, job.seed, state, values, times, tokens)
    known[run.id] = (stamp, read)
    return read


def _times(steps: Sequence[Step]) -> Iterator[tuple[int, float]]:
    """Seconds of training at each step; a pause between attempts does not count."""
    passed, before = 0.0, None
    for step in steps:
        if before is not None and step.attempt == before.attempt:
            passed += max(0.0, step.time - before.time)
        before = step
        yield step.step, passed


def _tokens(steps: Sequence[Step]) -> Iterator[tuple[int, float]]:
    """Tokens trained on until the end of each step; none where a step's number is missing."""
    passed = 0.0
    for step in steps:
        counts = (step.metrics.get(name) for name in metrics.TOKENS)
        if (count := next((count for count in counts if count is not None), None)) is not None:
            passed += count
        elif step.step > 0:
            return
        yield step.step, passed
