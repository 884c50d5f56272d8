"""``grubrics-tui launch``: start a run in the background."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs.rundir import runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import (
    ConfigArgument,
    JsonOption,
    OverridesArgument,
    RunsOption,
    TrustOption,
)
from grubrics_tui.commands.shared.output import answer, say, warn
from grubrics_tui.commands.shared.run_text import outcome
from grubrics_tui.commands.shared.trust import require_code_trust, require_config_trust

if TYPE_CHECKING:
    from engine.launch.launcher import LaunchPlan
    from engine.preflight.check import Check
    from engine.recipe.recipe import Recipe
    from engine.supervise.ray_api import Cluster


def launch(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    name: Annotated[str | None, typer.Option(help="Id of the run")] = None,
    wait: Annotated[bool, typer.Option(help="Follow the run to its end")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be launched")] = False,
    after: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Start when RUN has finished; fail if RUN fails"),
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for a turn: free GPUs; on a CPU no other run")
    ] = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Train as a job on this Ray cluster")
    ] = None,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a recipe and launch it, detached. Refuses (exit code 2) what cannot work."""
    from engine.launch.launcher import launch as start
    from engine.recipe.recipe import load_recipe

    require_config_trust(config, trust)
    recipe, root = load_recipe(config, overrides or []), runs_root(runs)
    require_code_trust(recipe, trust)
    plan, cluster = _planned(recipe, root, name, after, queue, ray)
    if not as_json:
        _show_plan(plan, cluster)
    warnings = [f"{one.id}: {one.message}" for one in _checked(plan, root, cluster)]
    warn(warnings)
    told = {"run": plan.run_id, "dir": str(plan.directory), "argv": list(plan.argv)}
    told_more: dict[str, Any] = {**told, "warnings": warnings}
    if dry_run:
        answer({**told_more, "state": None}, "dry run: nothing was launched", as_json)
        return
    run = start(plan)
    state = followed(run, as_json) if wait else observed_state(run)
    now = {"state": state.state, "reason": state.reason, "waiting_for": state.waiting_for}
    answer({**told_more, **now}, outcome(run, state), as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _planned(
    recipe: Recipe, root: Path, name: str | None, after: str | None, queue: bool, ray: str | None
) -> tuple[LaunchPlan, Cluster | None]:
    """What would be launched, and the Ray cluster that would train it."""
    from engine.launch.launcher import plan
    from engine.launch.queueing import ticket
    from engine.launch.ray_target import chosen_cluster

    cluster = chosen_cluster(ray, recipe)
    place = ticket(recipe, root, after=after, turn=queue, env=_environment(cluster))
    return plan(recipe, name, root, place, cluster.address if cluster else None), cluster


def _checked(plan: LaunchPlan, root: Path, cluster: Cluster | None) -> list[Check]:
    """The checklist's warnings. UsageError for a launch that cannot work."""
    from engine.launch.queueing import ahead
    from engine.preflight.checklist import require_launchable

    place, env = plan.ticket, _environment(cluster)
    before = ahead(place, root) if place else ()
    return require_launchable(plan.recipe, root, ahead=before, waits=place is not None, env=env)


def _environment(cluster: Cluster | None) -> dict[str, str] | None:
    """What the trainer will see; None: this process's own environment."""
    return {**os.environ, "RAY_ADDRESS": cluster.address} if cluster else None


def _show_plan(plan: LaunchPlan, cluster: Cluster | None) -> None:
    from engine.launch.ray_target import where_it_trains

    say(f"$ {shlex.join(plan.argv)}")
    for change in plan.recipe.changes:
        say(f"  {change.key}: {change.before} -> {change.after} ({change.origin})")
    if cluster:
        say(f"  {where_it_trains(cluster, plan.recipe)}")


COMMAND = Command(launch, Task.RUN)
