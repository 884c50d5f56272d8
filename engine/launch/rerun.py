"""Rerun a run with changes, e.g. those of a fix."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.base.errors import UsageError
from engine.findings.finding import Change
from engine.host.surroundings import edited_complaint
from engine.launch.launcher import (
    LaunchPlan,
    Parent,
    free_name,
    launch,
    plan,
)
from engine.launch.queueing import ahead, ticket
from engine.preflight.check import Check, warn
from engine.preflight.checklist import require_launchable
from engine.preflight.complete_change import Refusal, as_overrides, complete, with_overrides
from engine.recipe.frozen import Config, config_of, is_chosen
from engine.recipe.places import checkpoint_dir
from engine.recipe.recipe import ENVIRONMENT_KEYS, Recipe, load_recipe
from engine.runs.events import ask_stop
from engine.runs.kinds import KINDS
from engine.runs.rundir import RunDir, folder_names
from engine.runs.state import observed_state
from engine.runs.trust import require


@dataclass(frozen=True)
class Rerun:
    """A changed run that can be launched, planned once: shown, checked and launched as it is."""

    original: RunDir
    plan: LaunchPlan
    changes: tuple[Change, ...]
    """The wanted changes with all that they touch."""
    warnings: tuple[Check, ...] = ()
    """Of the preflight checks, which it passes."""
    before: tuple[RunDir, ...] = ()
    """The runs that were made so already, in the order of their names."""

    @property
    def weights(self) -> str:
        """The folder of its checkpoints."""
        return checkpoint_dir(self.plan.recipe)


def plan_rerun(run: RunDir, changes: Sequence[Change]) -> Rerun:
    """Plan the run with the changes applied, under a free name and with its own checkpoint folder.

    It starts from the model that the run started from. Nothing is written. UsageError where the
    changes are invalid or change nothing, and where the run was launched from another folder. While
    the run is active, the new one is queued.
    """
    require_here(run)
    manifest, root = run.read_manifest(), run.path.parent
    waits, ray = not observed_state(run).has_ended, manifest.get("ray")
    if waits and ray:
        raise UsageError(
            f"run '{run.id}' is still running on a Ray cluster, which has no queue. "
            f"Stop it first: grubrics-tui stop {run.id}"
        )
    recipe, name = recipe_of(run), free_name(root, _stem(run))
    whole = complete_changes(run, recipe, changes)
    own_folder = _own_folder(recipe, name)
    changed = with_overrides(recipe, as_overrides((*whole, own_folder)))
    added = {change.key: str(change.after) for change in whole if change.kind == "environment"}
    planned = plan(
        changed,
        name,
        root,
        ticket=ticket(changed, root, after=None, turn=waits),
        ray=ray,
        parent=Parent(run.id, "remedy"),
        variables={**(manifest.get("variables") or {}), **added},
    )
    return Rerun(run, planned, whole)


def complete_changes(run: RunDir, recipe: Recipe, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Add everything that the changes touch. UsageError for invalid or ineffective changes."""
    whole = complete(recipe, [_of_recipe(change, recipe) for change in changes])
    if isinstance(whole, Refusal):
        raise UsageError(whole.reason)
    moved = tuple(c for c in whole if c.kind != "config" or c.after != c.before)
    if all(change.kind == "command" for change in moved):
        raise UsageError(f"run '{run.id}' already has these values")
    return moved


def check_rerun(run: RunDir, changes: Sequence[Change]) -> Rerun:
    """``plan_rerun``, and the preflight checks; UsageError where one fails. Nothing is written."""
    rerun = plan_rerun(run, changes)
    planned, root = rerun.plan, run.path.parent
    ahead_of_it = ahead(planned.ticket, root) if planned.ticket else ()
    env = {**os.environ, **planned.variables}
    if planned.ray:
        env["RAY_ADDRESS"] = planned.ray
    waits = planned.ticket is not None
    warnings = require_launchable(planned.recipe, root, ahead=ahead_of_it, waits=waits, env=env)
    if complaint := edited_complaint(run.id, run.read_manifest()):
        warnings = [*warnings, warn("edited", complaint)]
    return replace(rerun, warnings=tuple(warnings), before=tuple(_made_before(run, planned)))


def launch_rerun(rerun: Rerun) -> RunDir:
    """Launch what was planned. An active original is asked to stop once the new run is queued."""
    original = rerun.original
    if rerun.plan.ticket is None and not observed_state(original).has_ended:
        raise UsageError(f"run '{original.id}' has been resumed meanwhile. Apply the fix again")
    made = launch(rerun.plan)
    if not observed_state(original).has_ended:
        ask_stop(original, by="its remedy")
    return made


def recipe_of(run: RunDir) -> Recipe:
    """What the run was launched with, under the name of its recipe."""
    if not run.recipe.is_file():
        raise UsageError(
            f"{run.recipe}: the run's recipe is missing; it cannot be rerun with changes"
        )
    recipe = load_recipe(str(run.recipe), (), {})
    return replace(recipe, name=str(run.read_manifest().get("recipe") or recipe.name))


def require_here(run: RunDir) -> None:
    """UsageError for a run of another folder, where its recipe's paths mean nothing, and for one
    of which nothing may be executed."""
    require(run, executes=True)
    cwd = run.read_manifest().get("cwd")
    if cwd and Path(str(cwd)) != Path.cwd():
        raise UsageError(f"run '{run.id}' was launched from {cwd}; run this command there")


def _stem(run: RunDir) -> str:
    """How the names of its children begin."""
    return f"{run.id[:85]}-remedy"


def _made_before(run: RunDir, planned: LaunchPlan) -> Iterator[RunDir]:
    """The run's children that differ from the planned one by name and folder only."""
    root, parent = run.path.parent, planned.parent and asdict(planned.parent)
    wanted = _launched_with(config_of(planned.recipe, planned.directory), planned.variables)
    names = [name for name in folder_names(root) if name.startswith(_stem(run))]
    for child in (RunDir(root / name) for name in names):
        told = child.read_manifest()
        given = _launched_with(told.get("config") or {}, told.get("variables") or {})
        if told.get("parent") == parent and given == wanted:
            yield child


def _launched_with(config: Config, variables: Mapping[str, str]) -> str:
    """All that was set but the folder, in the form that a manifest keeps."""
    values = {
        key: one["value"]
        for key, one in config.items()
        if is_chosen(one) and key not in {kind.checkpoint_key for kind in KINDS.values()}
    }
    return json.dumps([values, dict(variables)], sort_keys=True, default=str)


def _own_folder(recipe: Recipe, name: str) -> Change:
    key, before = recipe.kind.checkpoint_key, checkpoint_dir(recipe)
    return Change(
        "config", key, str(Path(before).parent / name), before, "keeps both runs' weights"
    )


def _of_recipe(change: Change, recipe: Recipe) -> Change:
    """A run reads what it was launched with: a variable that a recipe key stands for is that."""
    if change.kind != "environment" or change.key not in ENVIRONMENT_KEYS:
        return change
    key = ENVIRONMENT_KEYS[change.key]
    return replace(change, kind="config", key=key, before=recipe.get(key))
