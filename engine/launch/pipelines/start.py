"""Start a pipeline: choose the run of each stage, and launch the run that launches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.text import format_command
from engine.launch.command import CommandPlan, launch_command, plan_command
from engine.launch.pipelines.record import PlannedStage, Record, final_model, starts_of
from engine.launch.pipelines.stages import MODEL, Pipeline, Stage
from engine.run.host.programs import own_module
from engine.run.manifest import Setting
from engine.run.run import Run, exists
from engine.run.state import RunState, observed_state
from engine.run.trust import Case, UntrustedError, files_objection
from engine.run.trust_facts import executed_words

PROGRESS = r"^stage (?P<step>\d+) of \d+ finished after (?P<step_time>[\d.]+) s"
"""What the run of a pipeline prints after each stage: its steps are the stages."""
_STOP_PATIENCE_S = 90.0
"""Longer than the stop of a stage takes."""
_NEVER_S = 1e9
"""The next stage may take a thousand times as long as the last one: that is no stall."""

Start = tuple[Run, Record]


@dataclass(frozen=True)
class StartPlan:
    """Everything that starting a pipeline will do."""

    record: Record
    run: CommandPlan


def plan_start(
    pipeline: Pipeline,
    root: Path,
    skipped: frozenset[str],
    *,
    after: str | None = None,
    queue: bool = False,
) -> StartPlan:
    """Choose the runs of a start. Nothing is written.

    UsageError while an earlier start or one of its stages is active, if a stage needs what a
    skipped one has not made, and as for ``plan_command``.
    """
    starts = starts_of(pipeline.name, root)
    _require_ended(pipeline, starts, root)
    run_id = _free_id(pipeline, root)
    stages = tuple(
        PlannedStage(stage, _finished(stage.name, starts, root), is_skipped=True)
        if stage.name in skipped
        else PlannedStage(stage, f"{run_id}-{stage.name}")
        for stage in pipeline.stages
    )
    record = Record(pipeline.name, str(pipeline.path), stages)
    for planned in stages:
        if not planned.is_skipped:
            _require_outputs(planned.stage, record, starts, root)
    # Without GPUs of its own: those that this shell sees are for the stages.
    argv = own_module("engine.launch.pipelines.runner")
    run = plan_command(argv, root, name=run_id, after=after, queue=queue, gpus=0)
    settings = {
        "supervision.interrupt_patience_s": Setting(_STOP_PATIENCE_S, "default"),
        "supervision.stall_floor_s": Setting(_NEVER_S, "default"),
    }
    run = replace(run, variables={}, metrics=PROGRESS, settings=settings)
    return StartPlan(record, replace(run, pipeline=record.to_record(), total_steps=record.count))


def objection(record: Record) -> Case | None:
    """What a person must agree to before a start: another user could have written the file, or a
    script that a stage executes. Configs are judged when their stages are launched."""
    stages = [planned.stage for planned in record.stages]
    code = [path for stage in stages for path in executed_words(stage.words)]
    commands = [format_command([stage.kind.name, *stage.words]) for stage in stages]
    file = Path(record.file)
    return files_objection(f"pipeline '{record.name}'", file, [file, *code], commands)


def start(plan: StartPlan) -> Run:
    """Launch the run of a pipeline, detached from this process. UsageError as for a launch, and
    UntrustedError with an ``objection``."""
    if (case := objection(plan.record)) is not None:
        raise UntrustedError(case)
    return launch_command(plan.run)


def _require_ended(pipeline: Pipeline, starts: Sequence[Start], root: Path) -> None:
    """Raise UsageError for a start that is active, and for a stage that outlived its start."""
    for run, record in starts:
        stages = [(f"stage '{p.stage.name}' of ", p.run) for p in record.stages if p.run]
        for what, run_id in [("", run.id), *stages]:
            if exists(f"{root}/{run_id}/manifest.json") and not _state(run_id, root).has_ended:
                raise UsageError(
                    f"{what}pipeline '{pipeline.name}' is still running: run '{run_id}'. Stop it "
                    f"first: grubrics-tui stop {run_id}"
                )


def _free_id(pipeline: Pipeline, root: Path) -> str:
    """``NAME``, with a number if a run of that name, or of one of its stages, exists."""
    names = chain([pipeline.name], (f"{pipeline.name}-{number}" for number in count(2)))
    suffixes = ("", *(f"-{stage.name}" for stage in pipeline.stages))
    return next(n for n in names if not any(exists(f"{root}/{n}{suffix}") for suffix in suffixes))


def _finished(stage: str, starts: Sequence[Start], root: Path) -> str | None:
    """The run of the newest start whose stage finished."""
    runs = (record.run_of(stage) for _, record in starts)
    return next((run for run in runs if run and _state(run, root).went_well), None)


def _state(run: str, root: Path) -> RunState:
    return observed_state(Run(root / run))


def _require_outputs(stage: Stage, record: Record, starts: Sequence[Start], root: Path) -> None:
    """Raise UsageError if the stage needs a skipped one that has not finished, or its model."""
    for name, output in stage.references():
        needed = next((p for p in record.stages if p.stage.name == name), None)
        if needed is None or not needed.is_skipped:
            continue
        where = f"{record.file}: stage '{stage.name}' needs ${name}.{output}"
        if needed.run is None:
            last = next((run for _, earlier in starts if (run := earlier.run_of(name))), None)
            known = last is not None and exists(f"{root}/{last}/manifest.json")
            how = f": run '{last}' is {_state(last, root).word}" if last and known else ""
            raise UsageError(
                f"{where}, and stage '{name}', which is skipped, has not finished{how}"
            )
        model = final_model(Run(root / needed.run))
        if output == MODEL and not model.is_dir():
            raise UsageError(f"{where}, and {model}, of run '{needed.run}', does not exist")
