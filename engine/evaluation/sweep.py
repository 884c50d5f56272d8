"""The checkpoints of a run, in order, while it trains or afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError
from engine.checkpoints.ownership import checkpoint_folder
from engine.checkpoints.step_folders import (
    WantedFiles,
    step_problem,
    tracked_step,
    written_steps,
)
from engine.evaluation.targets import Target, find_baseline, folder_target
from engine.recipe.recipe import Recipe
from engine.runs.manifest import values_of
from engine.runs.rundir import RunDir


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


def find_checkpoints(run: RunDir) -> Checkpoints:
    """The checkpoints in the folder of the run. UsageError for a run that saves none."""
    manifest = run.read_manifest()
    folder = checkpoint_folder(manifest)
    if folder is None:
        raise UsageError(f"run '{run.id}': its manifest names no checkpoint folder")
    wanted, last = WantedFiles.by_config(values_of(manifest)), tracked_step(folder)
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


def step_targets(run: RunDir, checkpoints: Checkpoints) -> list[Target]:
    """The complete checkpoints as targets ``RUN:STEP``, in order."""
    return [folder_target(path, f"{run.id}:{step}") for step, path in checkpoints.complete.items()]


def starting_model(run: RunDir, recipe: Recipe, root: Path) -> Target:
    """The model that the run started from, as step 0."""
    model = str(recipe.get(recipe.kind.model_key))
    target = find_baseline(model, recipe, root)
    return Target(f"{run.id}:0", target.form, target.source, target.sha256)
