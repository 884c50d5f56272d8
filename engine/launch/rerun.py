"""A changed run, launched as the child of the one that needed the change."""

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
    """A changed run that can be launched: its changes with all they touch, and the warnings of the
    checklist, which it passes."""

    plan: LaunchPlan
    changes: tuple[Change, ...]
    warnings: tuple[Check, ...]
    before: tuple[RunDir, ...] = ()
    """The runs that were made so already, in the order of their names."""

    @property
    def weights(self) -> str:
        """The folder of its checkpoints."""
        return checkpoint_dir(self.plan.recipe)


def completed(run: RunDir, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes with everything they touch. UsageError where there is no valid whole, and where
    nothing would change."""
    recipe = recipe_of(run)
    whole = complete(recipe, [_of_recipe(one, recipe) for one in changes])
    if isinstance(whole, Refusal):
        raise UsageError(whole.reason)
    moved = tuple(one for one in whole if one.kind != "config" or one.after != one.before)
    if all(one.kind == "command" for one in moved):
        raise UsageError(f"run '{run.id}' was launched with that already")
    return moved


def plan_rerun(run: RunDir, changes: Sequence[Change]) -> LaunchPlan:
    """The run with the changes applied, under a free name and with a checkpoint folder of its own.

    It starts from the model that the run started from. Nothing is written. UsageError where there
    is no valid whole, and where the run was launched from another folder. While the run goes on,
    its child waits for a turn.
    """
    require_here(run)
    manifest = run.read_manifest()
    waits, ray = not observed_state(run).has_ended, manifest.get("ray")
    if waits and ray:
        raise UsageError(f"run '{run.id}' goes on on a Ray cluster, which has no queue; stop it")
    recipe, name = recipe_of(run), free_name(run.path.parent, _stem(run))
    whole = (*completed(run, changes), _own_folder(recipe, name))
    changed = with_overrides(recipe, as_overrides(whole))
    return plan(
        changed,
        name,
        run.path.parent,
        ticket=ticket(changed, run.path.parent, after=None, turn=waits),
        ray=ray,
        parent=Parent(run.id, "remedy"),
        variables={**(manifest.get("variables") or {}), **_variables(whole)},
    )


def check_rerun(run: RunDir, changes: Sequence[Change]) -> Rerun:
    """``plan_rerun``, and the checklist; UsageError where a launch would be refused. Nothing is
    written."""
    planned, root = plan_rerun(run, changes), run.path.parent
    before = ahead(planned.ticket, root) if planned.ticket else ()
    env = {**os.environ, **planned.variables}
    if planned.ray:
        env["RAY_ADDRESS"] = planned.ray
    waits = planned.ticket is not None
    warnings = require_launchable(planned.recipe, root, ahead=before, waits=waits, env=env)
    if complaint := edited_complaint(run.id, run.read_manifest()):
        warnings = [*warnings, warn("edited", complaint)]
    made = tuple(_made_before(run, planned))
    return Rerun(planned, completed(run, changes), tuple(warnings), made)


def launch_rerun(run: RunDir, changes: Sequence[Change]) -> RunDir:
    """Launch ``check_rerun``; UsageError where that is refused."""
    return launch_checked(run, check_rerun(run, changes))


def launch_checked(run: RunDir, checked: Rerun) -> RunDir:
    """A run that still goes on is asked to stop, once its child waits for its place."""
    child = launch(checked.plan)
    if not observed_state(run).has_ended:
        ask_stop(run, by="its remedy")
    return child


def recipe_of(run: RunDir) -> Recipe:
    """What the run was launched with, under the name of its recipe."""
    if not run.recipe.is_file():
        raise UsageError(f"{run.recipe}: the run's recipe is not there, so nothing can be changed")
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


def _variables(changes: Sequence[Change]) -> Mapping[str, str]:
    return {one.key: str(one.after) for one in changes if one.kind == "environment"}
