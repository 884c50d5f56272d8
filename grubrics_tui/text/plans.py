"""Plans in words: what a fix changes, an ablation and the table of its arms, a pipeline, what
pruning frees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from engine.base.quantities import (
    format_count,
    format_dollars,
    format_duration,
    format_fixed,
    format_size,
    format_whole,
)
from engine.base.tables import aligned_lines
from engine.base.text import format_config_value
from engine.run.state import describe, observed_state
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.base.intervals import Estimate
    from engine.launch.pipelines.record import PipelineStatus, StageStatus
    from engine.launch.rerun import Rerun
    from engine.measure.ablations.cost import Cost
    from engine.measure.ablations.plan import AblationPlan, Arm
    from engine.measure.ablations.report import AblationReport
    from engine.measure.ablations.table import ArmRow, SeedRun
    from engine.run.checkpoints.find import SavedCheckpoint
    from engine.run.checkpoints.pruning import Pruning
    from engine.run.finding import Change


COLUMNS = ("arm", "mean", "difference", "95% interval", "seeds", "verdict")
_DATA = "data."


def format_change(change: Change) -> str:
    """Format as ``data.train_batch_size: 24 -> 16  (why)``."""
    if change.kind == "command":
        return clean_text(f"first: {change.after}")
    before = "" if change.before is None else f"{format_config_value(change.before)} -> "
    why = f"  ({change.why})" if change.why else ""
    return clean_text(f"{change.key}: {before}{format_config_value(change.after)}{why}")


def format_rerun(derived: Rerun) -> Iterator[str]:
    """Yield the run that a fix would launch, earlier runs with it, its checkpoint directory and the
    warnings of the preflight checks."""
    for earlier in derived.before:
        yield clean_text(
            f"note: {earlier.id} already has these overrides ({describe(observed_state(earlier))})"
        )
    yield clean_text(f"new run: {derived.plan.run_id}")
    yield clean_text(f"checkpoints: {derived.weights}")
    count = len(derived.warnings)
    warned = f" with {format_count(count, 'warning')}" if count else ""
    yield f"preflight checks passed{warned}"
    yield from (clean_text(f"  {check.id}: {check.message}") for check in derived.warnings)


def format_plan(plan: AblationPlan, cost: Cost) -> Iterator[str]:
    """The arms with what changes, and what all runs need together."""
    yield f"{plan.id}: {format_plan_size(plan)}"
    width = max(len(arm.name) for arm in plan.arms)
    for arm in plan.arms:
        yield f"  {arm.name:{width}}  {format_changes(arm)}"
    yield from format_cost(cost)
    if note := format_seeds(len(plan.seeds)):
        yield note


def format_similar(similar: tuple[str, dict[str, tuple[object, object]]] | None) -> Iterator[str]:
    """Another ablation with the same arms: what it has otherwise, and how to continue that one."""
    if similar is None:
        return
    other, differing = similar
    changes = ", ".join(
        f"{key}={format_config_value(before)} instead of {format_config_value(after)}"
        for key, (before, after) in differing.items()
    )
    yield f"not {other}, which has {changes or 'other data or code'}"
    yield f"to continue {other} instead: grubrics-tui ablate {other}"


def format_plan_size(plan: AblationPlan) -> str:
    """``4 arms x 3 seeds x 20 steps = 12 runs``."""
    arms, seeds = len(plan.arms), len(plan.seeds)
    sizes = ((arms, "arm"), (seeds, "seed"), (plan.steps, "step"))
    return (
        f"{' x '.join(format_count(*size) for size in sizes)} = {format_count(arms * seeds, 'run')}"
    )


def format_changes(arm: Arm) -> str:
    """The values that differ from the base; of rewritten data only what changes in the prompts."""
    changes = [
        f"{key}: {format_config_value(before)} -> {format_config_value(after)}"
        for key, (before, after) in arm.differences.items()
        if not key.startswith(_DATA) or not str(after).startswith("ablations/")
    ]
    return ", ".join(changes) or "as the config is"


def format_cost(cost: Cost) -> Iterator[str]:
    """Time, disk, judge and memory, each with what is not known."""
    if cost.hours is None:
        yield "time: unknown; no run of this size has been measured here"
    else:
        minutes = max(1, round(cost.hours * 60))
        took = f"{cost.hours:.1f} h" if cost.hours >= 1 else f"{minutes} min"
        yield f"time: {took}, one run after the other, from {cost.basis}"
    if cost.disk_bytes is not None:
        yield f"disk: {format_size(cost.disk_bytes)} of checkpoints"
    if cost.judge_calls:
        price = "price unknown" if cost.judge_usd is None else format_dollars(cost.judge_usd)
        yield f"judge: {format_whole(cost.judge_calls)} calls, {price}"
    if cost.fits is False:
        yield "memory: at least one arm does not fit; see grubrics-tui estimate"


def format_seeds(seeds: int) -> str | None:
    """What so few seeds can show; None from 4 on."""
    if seeds == 1:
        return "1 seed: differences without an interval, and no verdict"
    if seeds == 2:
        return "2 seeds show only differences of 9 times the spread between seeds; plan 3 or more"
    if seeds == 3:
        return "3 seeds: 4 times the spread between seeds is found in 91% of cases, 2 times in 47%"
    return None


def format_table(report: AblationReport) -> Iterator[str]:
    """The table of the arms as aligned text, with remarks below."""
    yield f"{report.measure}, {report.ended} of {report.total} runs ended"
    yield from aligned_lines([COLUMNS, *map(arm_cells, report.rows)])
    for row in report.rows:
        yield from (f"{row.name}: {remark}" for remark in arm_remarks(row, report.plan.steps))


def format_progress(report: AblationReport) -> Iterator[str]:
    """Whether runs are still to come, and the next command; nothing once all have ended."""
    if not report.pending:
        return
    plan = report.plan.id
    if not report.is_running:
        yield f"paused; grubrics-tui ablate {plan} starts the runs that are missing"
        return
    yield f"trains in the background; grubrics-tui ablate {plan} --dry-run prints the table"
    runs = (run for row in report.rows for run in row.runs)
    if active := next((run for run in runs if run.state and not run.state.has_ended), None):
        yield f"grubrics-tui stop {active.run} pauses it"


def format_outcome(report: AblationReport) -> str:
    """What the table says about each arm, a line per arm."""
    lines = [f"Ablation {report.plan.id}, {report.measure}:"]
    for row in report.rows:
        if row.comparison is not None:
            estimate = row.comparison.difference
            interval = format_interval(estimate)
            lines.append(f"{row.name}: {format_verdict(row)}, {estimate.mean:+.3f} ({interval})")
    return "\n".join(lines)


def arm_cells(row: ArmRow) -> tuple[str, ...]:
    """One row of ``COLUMNS``."""
    estimate = row.comparison.difference if row.comparison else None
    return (
        row.name,
        format_fixed(row.mean.mean if row.mean else None),
        "" if estimate is None else f"{estimate.mean:+.3f}",
        "" if estimate is None else format_interval(estimate),
        format_runs(row.runs),
        format_verdict(row),
    )


def arm_remarks(row: ArmRow, planned_steps: int) -> Iterator[str]:
    """What a reader of the row must know beside its numbers."""
    if row.stopped:
        yield row.stopped
    yield from (text for text in (row.incomparable, row.remark) if text)
    if any(step < planned_steps for step in row.steps):
        steps = ", ".join(map(str, dict.fromkeys(row.steps)))
        yield f"compared at step {steps} of {planned_steps}; the means are of each run's last step"
    estimate = row.comparison.difference if row.comparison else None
    if row.verdict == "undecided" and estimate and estimate.is_constant:
        yield "every seed shows the same difference: a verdict takes at least 6 seeds (sign test)"
    elif row.verdict == "undecided" and estimate and _excludes_0(estimate):
        yield "its interval alone excludes 0, but not after correction for all arms (Holm)"
    if row.comparison and row.comparison.needed:
        yield f"about {row.comparison.needed} seeds would show a difference of this size"
    correlation = row.comparison.correlation if row.comparison else None
    if correlation is not None:
        effect = "does not help" if correlation < 0 else "helps"
        yield f"pairing by seed {effect} here (correlation {correlation:+.2f})"


def _excludes_0(estimate: Estimate) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 0 or high < 0)


def format_interval(estimate: Estimate) -> str:
    """An interval, or that there is none."""
    if estimate.low is None or estimate.high is None:
        return "none"
    return f"{estimate.low:+.3f} to {estimate.high:+.3f}"


def format_verdict(row: ArmRow) -> str:
    """The verdict, ``so far`` while runs of the arm are to come; or why there is none."""
    if row.comparison is not None and row.verdict is None:
        return "needs 2 seeds"
    if row.verdict is not None:
        return f"{row.verdict} so far" if row.is_preliminary else row.verdict
    return "incomparable" if row.incomparable else ""


def format_runs(runs: Sequence[SeedRun]) -> str:
    """How many runs finished, and the others by state: ``2/3, 1 running``."""
    states = [run.state.state for run in runs if run.state is not None]
    finished = states.count("finished")
    others = [
        f"{states.count(state)} {state}" for state in dict.fromkeys(states) if state != "finished"
    ]
    return ", ".join([f"{finished}/{len(runs)}", *others])


def format_saved(checkpoints: Sequence[SavedCheckpoint]) -> str:
    """Format which checkpoints are on the disk, and their size."""
    missing = {True: " (rotated away)", False: " (incomplete)"}
    names = (
        ("final" if checkpoint.step is None else f"step {checkpoint.step}")
        + ("" if checkpoint.complete else missing[checkpoint.rotated])
        for checkpoint in checkpoints
    )
    size = format_size(sum(checkpoint.bytes for checkpoint in checkpoints))
    return f"{format_count(len(checkpoints), 'checkpoint')}, {size}: {', '.join(names)}"


def format_pruning(pruning: Pruning) -> str:
    """``grpo-night   frees steps 10, 20, 30 (1.2 GiB), keeps steps 40 (best), 60 (last)``.

    Steps that are kept for one reason are named together.
    """
    run = f"{pruning.run.id:<36}"
    if pruning.kept_because:
        return f"{run} keeps all: {pruning.kept_because}"
    reasons = groupby(pruning.kept.items(), key=lambda item: item[1])
    kept = ", ".join(
        f"{', '.join(str(step) for step, _ in items)} ({reason})" for reason, items in reasons
    )
    keeps = f"keeps {_steps_word(len(pruning.kept))} {kept}" if kept else "keeps none"
    if not pruning.entries:
        return f"{run} nothing to free, {keeps}"
    count = len(pruning.steps)
    steps = ", ".join(map(str, pruning.steps))
    freed = f"{_steps_word(count)} {steps}" if count else "remains of a deletion"
    return f"{run} frees {freed} ({format_size(pruning.bytes)}), {keeps}"


def _steps_word(count: int) -> str:
    return "step" if count == 1 else "steps"


def format_status(status: PipelineStatus, *, with_stages: bool = True) -> Iterator[str]:
    """Yield a line about the pipeline and one for each stage, and how to continue."""
    is_told = any(stage.state in ("failed", "stopped", "lost") for stage in status.stages)
    reason = f": {status.reason}" if status.reason and not is_told else ""
    yield f"pipeline {status.name}  run {status.run}  {status.state}{reason}"
    width = max(len(stage.name) for stage in status.stages)
    if with_stages:
        yield from (f"  {format_stage(stage, width)}" for stage in status.stages)
    if (stage := status.next_stage) is not None:
        yield f"continue: grubrics-tui pipeline {status.file} --from {stage}"


def format_stage(stage: StageStatus, width: int = 0) -> str:
    """``sft  finished  1m 03s  run tiny-sft``; of a failure, its reason and finding, too."""
    parts = [stage.name.ljust(width), stage.state.ljust(8)]
    if stage.duration_s is not None:
        parts.append(format_duration(stage.duration_s))
    if stage.run is not None:
        parts.append(f"run {stage.run}")
    if stage.reason is not None and stage.state != "finished":
        parts.append(stage.reason)
    if stage.finding is not None:
        parts.append(f"finding: {stage.finding}")
    return "  ".join(parts).rstrip()
