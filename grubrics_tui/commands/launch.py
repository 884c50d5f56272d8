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
    AfterOption,
    ConfigArgument,
    DryRunOption,
    JsonOption,
    OverridesArgument,
    QueueOption,
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
    from engine.supervise.ray_jobs import Cluster


def launch(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="Run ID (default: CONFIG-TIMESTAMP)")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Print progress until the run ends")] = False,
    dry_run: DryRunOption = False,
    after: AfterOption = None,
    queue: QueueOption = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Submit as a job to this Ray cluster, e.g. http://head:8265"
        ),
    ] = None,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Launch a run in the background.

    Exits with 2 if a preflight check fails. With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.launcher import launch as start
    from engine.launch.ray_target import describe_target
    from engine.recipe.recipe import load_recipe

    require_config_trust(config, trust)
    recipe, root = load_recipe(config, overrides or []), runs_root(runs)
    require_code_trust(recipe, trust)
    plan, cluster = _planned(recipe, root, name, after, queue, ray)
    if not as_json:
        say(f"$ {shlex.join(plan.argv)}")
        for change in plan.recipe.changes:
            say(f"  {change.key}: {change.before} -> {change.after} ({change.origin})")
        if cluster:
            say(f"  {describe_target(cluster, plan.recipe)}")
    warnings = [f"{check.id}: {check.message}" for check in _checked(plan, root, cluster)]
    warn(warnings)
    value: dict[str, Any] = {
        "run": plan.run_id,
        "dir": str(plan.directory),
        "argv": list(plan.argv),
        "warnings": warnings,
    }
    if dry_run:
        answer({**value, "state": None}, "dry run: nothing was launched", as_json)
        return
    run = start(plan)
    state = followed(run, as_json) if wait else observed_state(run)
    now = {"state": state.state, "reason": state.reason, "waiting_for": state.waiting_for}
    answer({**value, **now}, outcome(run, state), as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _planned(
    recipe: Recipe, root: Path, name: str | None, after: str | None, queue: bool, ray: str | None
) -> tuple[LaunchPlan, Cluster | None]:
    """Return the launch plan, and the Ray cluster that would train."""
    from engine.launch.launcher import plan
    from engine.launch.queueing import ticket
    from engine.launch.ray_target import chosen_cluster

    cluster = chosen_cluster(ray, recipe)
    queued = ticket(recipe, root, after=after, turn=queue, env=_environment(cluster))
    return plan(recipe, name, root, queued, cluster.address if cluster else None), cluster


def _checked(plan: LaunchPlan, root: Path, cluster: Cluster | None) -> list[Check]:
    """Return the warnings of the preflight checks. UsageError if a check fails."""
    from engine.launch.queueing import ahead
    from engine.preflight.checklist import require_launchable

    queued, env = plan.ticket, _environment(cluster)
    before = ahead(queued, root) if queued else ()
    return require_launchable(plan.recipe, root, ahead=before, waits=queued is not None, env=env)


def _environment(cluster: Cluster | None) -> dict[str, str] | None:
    """Return the environment of the trainer; None for this process's environment."""
    return {**os.environ, "RAY_ADDRESS": cluster.address} if cluster else None


COMMAND = Command(launch, Task.RUN)
