"""What an ablation costs before it starts: time, disk, judge calls and memory of all its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.checks.estimate.report import estimate
from engine.config.load import Config
from engine.measure.ablations.plan import AblationPlan, arm_configs


@dataclass(frozen=True)
class Cost:
    """Sums over all runs, one after the other; ``peak_bytes`` is the largest of any run. None where
    a number of one arm is unknown. ``basis``: what the hours were measured on."""

    runs: int
    hours: float | None
    basis: str | None
    disk_bytes: int | None
    judge_calls: int | None
    judge_usd: float | None
    peak_bytes: int | None
    fits: bool | None


def plan_cost(plan: AblationPlan, base: Config, root: Path, env: Mapping[str, str]) -> Cost:
    """Estimate every arm as a run of the plan, times the seeds. ``root``: earlier runs."""
    seeds = len(plan.seeds)
    estimates = [estimate(config, env, root) for config in arm_configs(plan, base)]
    durations = [each.duration for each in estimates]
    hours = _sum(duration.hours for duration in durations)
    calls = _sum(each.judge.calls.total if each.judge else None for each in estimates)
    dollars = _sum(each.judge.cost if each.judge else None for each in estimates)
    peaks = [each.sizes.memory.peak.total for each in estimates if each.sizes is not None]
    disks = [
        None if each.sizes is None else each.sizes.kept * each.sizes.checkpoint.total
        for each in estimates
    ]
    known = {each.fits for each in estimates}
    return Cost(
        seeds * len(plan.arms),
        None if hours is None else hours * seeds,
        next((duration.basis for duration in durations if duration.basis), None),
        None if (disk := _sum(disks)) is None else round(disk * seeds),
        None if calls is None else round(calls * seeds),
        None if dollars is None else dollars * seeds,
        max(peaks, default=None),
        False if False in known else None if None in known else True,
    )


def _sum(numbers: Iterable[float | None]) -> float | None:
    """The sum; None where a number is unknown."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)
