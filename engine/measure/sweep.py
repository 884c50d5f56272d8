"""The checkpoints of a run, in order, while it trains or afterwards."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError
from engine.config.load import Config
from engine.measure.evaluate import Evaluation
from engine.measure.folder import TargetDir, read_target
from engine.measure.measures import Metric
from engine.measure.summary import Result
from engine.measure.targets import Target, find_baseline, folder_target
from engine.run.checkpoints.ownership import checkpoint_folder
from engine.run.checkpoints.step_folders import (
    WantedFiles,
    step_problem,
    tracked_step,
    written_steps,
)
from engine.run.history.sweep import Sweep, SweepPoint
from engine.run.run import Run


@dataclass(frozen=True)
class Skipped:
    """A checkpoint that cannot be evaluated now; once it is complete, it can."""

    step: int
    reason: str


@dataclass(frozen=True)
class Checkpoints:
    """What a run has saved so far: complete ones by step, and the others."""

    complete: dict[int, Path]
    skipped: tuple[Skipped, ...]


def find_checkpoints(run: Run) -> Checkpoints:
    """The checkpoints in the folder of the run. UsageError for a run that saves none."""
    manifest = run.read_full_manifest()
    folder = checkpoint_folder(manifest)
    if folder is None:
        raise UsageError(f"run '{run.id}': its manifest names no checkpoint folder")
    wanted, last = WantedFiles.by_config(manifest.values), tracked_step(folder)
    complete, skipped = {}, []
    for step, path in written_steps(folder).items():
        problem = step_problem(path, wanted)
        if problem is None and (last is None or step > last):
            problem = "it is still being written"
        if problem is None:
            complete[step] = path
        else:
            skipped.append(Skipped(step, problem))
    return Checkpoints(complete, tuple(skipped))


def step_targets(
    run: Run, checkpoints: Checkpoints, without: Container[int] = ()
) -> dict[int, Target]:
    """The complete checkpoints as targets ``RUN:STEP``, in order, except some steps. One that the
    trainer deletes in this moment is left out."""
    targets = {}
    for step, path in checkpoints.complete.items():
        if step in without:
            continue
        with suppress(UsageError, FileNotFoundError):
            targets[step] = folder_target(path, f"{run.id}:{step}")
    return targets


def answered_steps(run: Run, evaluation: Evaluation) -> dict[int, Target]:
    """The targets ``RUN:STEP`` whose answers are all there, whether or not their checkpoints are.

    Of two checkpoints of one step, the one that was evaluated last.
    """
    files = evaluation.folder.path.glob("*/target.json")
    known = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime):
        target = read_target(file)
        step = _step_of(target.name, run) if target is not None else None
        if target is None or not step:
            continue
        if not evaluation.missing(target, TargetDir(file.parent)):
            known[step] = target
    return dict(sorted(known.items()))


def sweep_of(run: Run, evaluation: str, results: Sequence[Result], metric: Metric) -> Sweep | None:
    """``metric`` of every target ``RUN:STEP``; None before there is one."""
    points = []
    for result in results:
        step, estimate = _step_of(result.target, run), result.estimate
        if result.metric == metric.name and step is not None and estimate is not None:
            interval = (estimate.low, estimate.high)
            points.append(SweepPoint(step, estimate.mean, *interval, estimate.n, result.unscored))
    points.sort(key=lambda point: point.step)
    if not points:
        return None
    return Sweep(evaluation, metric.name, tuple(points), metric.lower_is_better)


def _step_of(target: str, run: Run) -> int | None:
    name, _, step = target.rpartition(":")
    return int(step) if name == run.id and step.isdecimal() else None


def starting_model(run: Run, config: Config, root: Path) -> Target:
    """The model that the run started from, as step 0."""
    model = str(config.get(config.kind.model_key))
    target = find_baseline(model, config, root)
    return Target(f"{run.id}:0", target.form, target.source, target.sha256)
