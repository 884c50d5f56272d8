"""Plan a launch: of a config, or of a run's config again. The run gets a checkpoint folder of its
own if another run's checkpoints are in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.launch.launcher import LaunchPlan, Parent, plan, trainer_argv
from engine.launch.rerun import recipe_of, require_launch_folder
from engine.launch.source import recipe_of_source
from engine.preflight.checkpoint import folder_objection
from engine.preflight.complete_change import with_overrides
from engine.recipe.places import checkpoint_dir
from engine.recipe.recipe import Recipe
from engine.runs.rundir import RunDir
from engine.supervise.queue import Ticket


def recipe_for_launch(
    source: str, overrides: Sequence[str], runs: Path
) -> tuple[Recipe, RunDir | None]:
    """The config of that name or path; else that of the run with this ID, and the run.

    UsageError for a run of another folder, or one that is not trusted.
    """
    recipe, run = recipe_of_source(source, overrides, runs)
    if run is not None:
        require_launch_folder(run)
    return recipe, run


def recipe_to_relaunch(run: RunDir, overrides: Sequence[str]) -> Recipe:
    """The config of a run with changes, in the environment of its launch rather than today's.

    UsageError for a run of another folder, or one that is not trusted.
    """
    require_launch_folder(run)
    return with_overrides(recipe_of(run), overrides)


def plan_launch(
    recipe: Recipe,
    runs: Path,
    name: str | None = None,
    ticket: Ticket | None = None,
    ray: str | None = None,
    again: RunDir | None = None,
) -> LaunchPlan:
    """Plan a run of ``recipe``; ``again`` is the run whose config it is. Nothing is written.

    A relaunched run always gets its own folder; another one if the folder of its config belongs to
    an active run or to a run of another configuration. UsageError for an invalid or taken name.
    """
    if again is None:
        planned = plan(recipe, name, runs, ticket, ray)
        reason = folder_objection(recipe, runs)
        return planned if reason is None else _with_own_folder(planned, reason)
    variables = again.read_manifest().get("variables")
    parent = Parent(again.id, "relaunch")
    planned = plan(recipe, name, runs, ticket, ray, parent, variables)
    return _with_own_folder(planned, f"those of run '{again.id}' stay")


def _with_own_folder(planned: LaunchPlan, reason: str) -> LaunchPlan:
    """The plan with a checkpoint folder that has the name of the run, beside the config's."""
    folder = Path(checkpoint_dir(planned.recipe)).parent / planned.run_id
    recipe = with_overrides(planned.recipe, [f"{planned.recipe.kind.checkpoint_key}={folder}"])
    note = f"checkpoints go to {folder}: {reason}"
    return replace(planned, recipe=recipe, argv=trainer_argv(recipe), folder_note=note)
