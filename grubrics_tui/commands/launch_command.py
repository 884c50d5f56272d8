"""The commands that begin training: check a recipe, launch it, go on with a run."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import RunState, describe, observed_state
from grubrics_tui.commands.options import (
    JsonOption,
    RunArgument,
    RunsOption,
    answer,
    print_json,
    say,
    terminal_width,
)
from grubrics_tui.commands.trusting import (
    TrustOption,
    require_code_trust,
    require_config_trust,
    require_run_code_trust,
)
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.launcher import LaunchPlan
    from engine.preflight.check import Check
    from engine.recipe.recipe import Recipe
    from engine.supervise.ray_api import Cluster

ConfigArgument = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A file, or the name of one in configs/")
]
OverridesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[key=value ...]", help="Changed values")
]

_NARROWEST = 20
"""Cells that the messages of the checklist get in any terminal."""


def check(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    tests: Annotated[bool, typer.Option(help="Run the quick tests too")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer the pre-launch checklist. Exit code 1 when a check fails."""
    from engine.preflight.checklist import run_checks
    from engine.recipe.recipe import load_recipe

    require_config_trust(config, trust)
    checks, recipe = [], load_recipe(config, overrides or [])
    if trust:
        require_code_trust(recipe, trust)
    for result in run_checks(recipe, tests=tests, runs=runs_root(runs)):
        checks.append(result)
        if not as_json:
            for line in check_lines(result, terminal_width()):
                say(line, flush=True)
    passed = all(result.status != "fail" for result in checks)
    if as_json:
        print_json({"ok": passed, "checks": [result.to_json() for result in checks]})
    raise typer.Exit(0 if passed else 1)


def check_lines(check: Check, width: int | None) -> list[str]:
    """An answer of the checklist: one line, or on a terminal lines of at most ``width`` cells.

    They are broken between words. A fix has a line of its own, which is never broken: commands
    are copied from it.
    """
    head = f"{check.status:<4}  {check.id:<12} "
    if width is None:
        fix = f"  [{check.fix}]" if check.fix else ""
        return [f"{head}{check.message}{fix}"]
    indent = " " * len(head)
    lines = textwrap.wrap(
        clean_text(check.message),
        max(width, len(head) + _NARROWEST),
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(lines or [head]), *([f"      fix: {check.fix}"] if check.fix else [])]


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
    _warn(warnings)
    told = {"run": plan.run_id, "dir": str(plan.directory), "argv": list(plan.argv)}
    told_more: dict[str, Any] = {**told, "warnings": warnings}
    if dry_run:
        answer({**told_more, "state": None}, "dry run: nothing was launched", as_json)
        return
    run = start(plan)
    state = followed(run, as_json) if wait else observed_state(run)
    now = {"state": state.state, "reason": state.reason, "waiting_for": state.waiting_for}
    answer({**told_more, **now}, _outcome(run, state), as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def resume(
    run: RunArgument,
    from_step: Annotated[
        int | None, typer.Option("--from", help="Step of a complete checkpoint [default: the last]")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Follow the run to its end")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be resumed")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that ended early, from its last complete checkpoint."""
    from engine.launch.resume import resume as go_on

    found = find_run(runs_root(runs), run)
    require_run_code_trust(found, trust)
    if dry_run:
        _show_resume(found, from_step, as_json)
        return
    resumed = go_on(found, from_step)
    _warn(resumed.warnings)
    state = followed(found, as_json) if wait else observed_state(found)
    told = {
        "run": found.id,
        "from_step": resumed.step,
        "attempt": resumed.attempt,
        "state": state.state,
        "warnings": list(resumed.warnings),
    }
    answer(told, f"from step {resumed.step}: {_outcome(found, state)}", as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _show_resume(run: RunDir, from_step: int | None, as_json: bool) -> None:
    from engine.launch.resume import resume_plan

    planned, argv = resume_plan(run, from_step)
    _warn(planned.warnings)
    told = {"run": run.id, "from_step": planned.step, "attempt": planned.attempt, "argv": argv}
    more = {"state": None, "warnings": list(planned.warnings)}
    text = (
        f"$ {shlex.join(argv)}\nattempt {planned.attempt} of {run.id} from step {planned.step}\n"
        "dry run: nothing was resumed"
    )
    answer({**told, **more}, text, as_json)


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


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}", to=sys.stderr, flush=True)


def followed(run: RunDir, as_json: bool) -> RunState:
    """Follow a run in the foreground; Ctrl-C stops the run and waits until it is gone."""
    from engine.supervise.stopping import stop_run
    from grubrics_tui.commands.progress import follow, parting

    out = sys.stderr if as_json else sys.stdout

    def tell(line: str) -> None:
        say(line, to=out, flush=True)

    with parting(run):
        try:
            return follow(run, tell)
        except KeyboardInterrupt:
            tell(f"stopping {run.id} ...")
            stop_run(run)
            return observed_state(run)


def _outcome(run: RunDir, state: RunState) -> str:
    """The state; of a run that was followed to its end with the doctor's verdict."""
    from engine.doctor.health import health_of

    health = health_of(run, state)
    trouble = f", {health.phrase}" if health and health.phrase else ""
    return f"{run.id}  {describe(state)}{trouble}\n{run.path}"
