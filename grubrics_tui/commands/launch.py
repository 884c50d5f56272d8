"""``grubrics-tui launch``: start a run in the background."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.recipe.config_files import config_names
from engine.runs.rundir import RunDir, find_run, run_ids, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import (
    CONFIG_HELP,
    AfterOption,
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
    config: Annotated[
        str | None, typer.Argument(help=CONFIG_HELP, metavar="[CONFIG]", show_default=False)
    ] = None,
    overrides: OverridesArgument = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="RUN", help="Launch the config of this run again, instead of CONFIG"
        ),
    ] = None,
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

    With --from, all arguments are KEY=VALUE. The end of a key is enough if it names one: lr=1e-5.
    The run gets its own checkpoint folder if that of the config belongs to another run.
    Exits with 2 if a preflight check fails. With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.launcher import launch as start
    from engine.launch.ray_target import describe_target

    root = runs_root(runs)
    recipe, again = _read(config, source, overrides or [], root, trust)
    require_code_trust(recipe, trust)
    plan, cluster = _planned(recipe, root, name, after, queue, ray, again)
    if not as_json:
        say(f"$ {shlex.join(plan.argv)}")
        for change in plan.recipe.changes:
            say(f"  {change.key}: {change.before} -> {change.after} ({change.origin})")
        if plan.folder_note:
            say(f"  {plan.folder_note}")
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


def _read(
    config: str | None, source: str | None, overrides: Sequence[str], root: Path, trust: bool
) -> tuple[Recipe, RunDir | None]:
    """Return the config to launch, and the run that it is of with ``--from``."""
    from engine.launch.plan_launch import recipe_to_relaunch
    from engine.recipe.recipe import load_recipe

    if source is not None:
        run = find_run(root, source)
        return recipe_to_relaunch(run, [*([config] if config else []), *overrides]), run
    if config is None:
        raise UsageError("name a CONFIG, or a run whose config to launch again: --from RUN")
    if config in run_ids(root) and config not in config_names():
        raise UsageError(
            f"'{config}' is a run; to launch its config again: grubrics-tui launch --from {config}"
        )
    require_config_trust(config, trust)
    return load_recipe(config, overrides), None


def _planned(
    recipe: Recipe,
    root: Path,
    name: str | None,
    after: str | None,
    queue: bool,
    ray: str | None,
    again: RunDir | None,
) -> tuple[LaunchPlan, Cluster | None]:
    """Return the launch plan, and the Ray cluster that would train."""
    from engine.launch.plan_launch import plan_launch
    from engine.launch.queueing import ticket
    from engine.launch.ray_target import chosen_cluster

    cluster = chosen_cluster(ray or (again.read_manifest().get("ray") if again else None), recipe)
    queued = ticket(recipe, root, after=after, turn=queue, env=_environment(cluster))
    address = cluster.address if cluster else None
    return plan_launch(recipe, root, name, queued, address, again), cluster


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
