"""The command line: every screen action has a twin here. Starts without Textual."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from engine import jsonl
from engine.errors import UsageError, guarded
from engine.launch.env_file import load_env_file
from engine.runs.rundir import RunDir, archive_root, find_run, runs_root
from engine.runs.state import RunState, describe, observed_state
from grubrics_tui import compare_command, put_away, rollouts_command, settings_command, watching
from grubrics_tui.options import FormatOption, JsonOption, RunArgument, RunsOption, on_terminal
from grubrics_tui.options import answer as _answer
from grubrics_tui.options import print_json as _print_json

app = typer.Typer(
    name="grubrics-tui",
    help="A terminal cockpit for LLM post-training.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigArgument = Annotated[str, typer.Argument(help="A file, or the name of one in configs/")]
OverridesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[key=value ...]", help="Changed values")
]


@app.callback(invoke_without_command=True)
def cockpit(
    context: typer.Context,
    config: Annotated[str, typer.Option(help="Recipe that the checklist opens on")] = "grpo_tiny",
    runs: RunsOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="A screen that launches, stops and deletes nothing")
    ] = False,
) -> None:
    """Open the screen; without a terminal, run the recipe headless."""
    if context.invoked_subcommand is not None:
        return
    if on_terminal():
        from grubrics_tui.app import GrubricsApp
        from grubrics_tui.settings import load_settings

        loaded = load_settings(read_only=read_only)
        GrubricsApp(runs_root(runs), config, loaded=loaded).run()
        return
    if read_only:
        raise UsageError("--read-only is about the screen, and this is no terminal")
    launch(config, wait=True, runs=runs)


@app.command()
def check(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    tests: Annotated[bool, typer.Option(help="Run the quick tests too")] = False,
    as_json: JsonOption = False,
) -> None:
    """Answer the pre-launch checklist. Exit code 1 when a check fails."""
    from engine.launch.recipe import load_recipe
    from engine.preflight.checklist import run_checks

    checks = []
    for result in run_checks(load_recipe(config, overrides or []), tests=tests):
        checks.append(result)
        if not as_json:
            fix = f"  [{result.fix}]" if result.fix else ""
            print(f"{result.status:<4}  {result.id:<12} {result.message}{fix}", flush=True)
    passed = all(result.status != "fail" for result in checks)
    if as_json:
        _print_json({"ok": passed, "checks": [result.to_json() for result in checks]})
    raise typer.Exit(0 if passed else 1)


@app.command()
def launch(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    name: Annotated[str | None, typer.Option(help="Id of the run")] = None,
    wait: Annotated[bool, typer.Option(help="Follow the run to its end")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be launched")] = False,
    after: Annotated[
        str | None, typer.Option(metavar="RUN", help="Start when this run has finished")
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for a turn: free GPUs; on a CPU no other run")
    ] = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Train as a job on this Ray cluster")
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a recipe and launch it, detached. Refuses (exit code 2) what cannot work."""
    from engine.launch.launcher import launch as start
    from engine.launch.launcher import plan
    from engine.launch.queueing import ahead, ticket
    from engine.launch.ray_target import chosen_cluster, where_it_trains
    from engine.launch.recipe import load_recipe
    from engine.preflight.checklist import require_launchable

    recipe, root = load_recipe(config, overrides or []), runs_root(runs)
    cluster = chosen_cluster(ray, recipe)
    env = {**os.environ, "RAY_ADDRESS": cluster.address} if cluster else None
    place = ticket(recipe, root, after=after, turn=queue, env=env)
    launch_plan = plan(recipe, name, root, place, cluster.address if cluster else None)
    if not as_json:
        _show_plan(launch_plan.argv, recipe.changes)
        if cluster:
            print(f"  {where_it_trains(cluster, recipe)}")
    require_launchable(recipe, root, ahead=ahead(place, root) if place else (), env=env)
    answer: dict[str, Any] = {
        "run": launch_plan.run_id,
        "dir": str(launch_plan.directory),
        "argv": list(launch_plan.argv),
    }
    if dry_run:
        _answer({**answer, "state": None}, "dry run: nothing was launched", as_json)
        return
    run = start(launch_plan)
    state = _wait(run, as_json) if wait else observed_state(run)
    now = {"state": state.state, "reason": state.reason, "waiting_for": state.waiting_for}
    _answer({**answer, **now}, _outcome(run, state), as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


@app.command("queue")
def queue_command(
    go_on: Annotated[
        bool, typer.Option("--release", help="Go on after two failures stopped the queue")
    ] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs that wait, first in line first, and what each waits for."""
    from engine.runs.queue import line_up
    from engine.runs.queue_log import release

    root = runs_root(runs)
    if go_on and line_up(root).held:
        release(root)
    line = line_up(root)
    rows = [f"{place:>3}  {one.id:<36} {one.phrase}" for place, one in enumerate(line.runs, 1)]
    text = "\n".join(rows) if rows else "no run waits"
    _answer(line.to_json(), f"{text}\n{line.held}" if line.held else text, as_json)


@app.command("runs")
def list_command(
    archived: Annotated[bool, typer.Option("--archived", help="Those in the archive")] = False,
    chosen: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="state:failed tag:x reward/mean>0.5 ..."),
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs, newest first."""
    from engine.runs.registry import list_runs

    root = runs_root(runs)
    root = archive_root(root) if archived else root
    found = list_runs(root)
    if chosen is not None:
        found = compare_command.filtered(root, found, chosen)
    if as_json:
        _print_json({"runs": [info.to_json() for info in found]})
        return
    for info in found:
        total = info.state.total_steps or "?"
        step = 0 if info.state.step is None else info.state.step
        tags = "".join(f"  #{tag}" for tag in info.notes.tags)
        print(f"{info.id:<36} {step:>5}/{total:<5} {describe(info.state)}{tags}")


@app.command()
def show(run: RunArgument, runs: RunsOption = None, as_json: JsonOption = False) -> None:
    """Say everything about one run."""
    from engine.runs.details import details

    found = details(find_run(runs_root(runs), run))
    if as_json:
        _print_json(found)
        return
    for key, value in found.items():
        print(f"{key:<12} {jsonl.line(str(value))}")


@app.command()
def series(
    run: Annotated[str, typer.Argument(help="A run's id, or a path")],
    metrics: Annotated[list[str] | None, typer.Argument(help="Names; none lists them")] = None,
    as_format: FormatOption = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print metrics of a run step by step. PATH may be what another trainer wrote."""
    from engine.watch import series as source

    steps = source.load_steps(run, runs_root(runs), metrics or (), as_format)
    if not metrics:
        names = source.names(steps)
        _answer({"names": names}, "\n".join(names), as_json)
        return
    found = {name: source.series(steps, name) for name in metrics}
    if as_json:
        _print_json({"series": found})
        return
    for name, points in found.items():
        for step, value in points:
            print(f"{name}\t{step}\t{'nan' if value is None else value}")


app.command()(watching.watch)


@app.command()
def stop(
    run: RunArgument,
    after_checkpoint: Annotated[
        bool, typer.Option("--after-checkpoint", help="Let the next checkpoint complete first")
    ] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a run and wait until nothing of it is left."""
    from engine.runs.stopping import stop_run

    done = stop_run(find_run(runs_root(runs), run), after_checkpoint=after_checkpoint)
    _answer(done.to_json(), done.message, as_json)
    raise typer.Exit(0 if done.ended or after_checkpoint else 1)


@app.command()
def resume(
    run: RunArgument,
    from_step: Annotated[
        int | None, typer.Option("--from", help="Step of a complete checkpoint [default: the last]")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Follow the run to its end")] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that ended early, from its last complete checkpoint."""
    from engine.launch.resume import resume as go_on

    found = find_run(runs_root(runs), run)
    resumed = go_on(found, from_step)
    for warning in resumed.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    state = _wait(found, as_json) if wait else observed_state(found)
    answer = {
        "run": found.id,
        "from_step": resumed.step,
        "attempt": resumed.attempt,
        "state": state.state,
        "warnings": list(resumed.warnings),
    }
    _answer(answer, f"from step {resumed.step}: {_outcome(found, state)}", as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


@app.command()
def reap(
    yes: Annotated[bool, typer.Option("--yes", help="End them")] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show processes and Ray directories that ended runs left behind; --yes ends exactly these."""
    from engine.runs import private_ray
    from engine.runs.reaper import leftovers
    from engine.runs.reaper import reap as end

    root = runs_root(runs)
    found = leftovers(root)
    ended = end(found) if yes else []
    holding = private_ray.leftovers(root)
    directories = [str(private_ray.directory(attempt)) for attempt in holding]
    if yes:
        for attempt in holding:
            private_ray.remove(attempt)
    lines = [
        f"{one.process.pid:>8}  {one.run:<36} {one.rss / 2**20:8.0f} MiB"
        f"  gpu {one.gpu_bytes / 2**20:.0f} MiB  ports {list(one.ports)}  {one.reason}"
        for one in found
    ] + [f"          Ray's directory {directory}" for directory in directories]
    verdict = f"ended {len(ended)}" if yes else f"{len(lines)} left behind; --yes ends them"
    text = "\n".join([*lines, verdict]) if lines else "nothing is left behind"
    answer = {"leftovers": [one.to_json() for one in found], "ended": ended}
    _answer({**answer, "directories": directories}, text, as_json)


app.command()(settings_command.settings)
app.command()(put_away.archive)
app.command()(put_away.delete)
app.command()(rollouts_command.rollouts)
app.command()(compare_command.compare)
app.command()(compare_command.tag)
app.command()(compare_command.note)


@app.command()
def log(
    run: RunArgument,
    append: Annotated[bool, typer.Option("--append", help="Append it to the log file")] = False,
    title: Annotated[str | None, typer.Option(help="Title of the entry")] = None,
    question: Annotated[str | None, typer.Option(help="Research question it attacks")] = None,
    observations: Annotated[str | None, typer.Option()] = None,
    decision: Annotated[str | None, typer.Option()] = None,
    file: Annotated[Path, typer.Option(help="Log file")] = Path("docs/experiment-log.md"),
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a run's experiment-log entry from its files; --append writes it."""
    import dataclasses

    from engine.records.experiment_log import append_entry, draft_entry, render

    given = {
        "title": title,
        "question": question,
        "observations": observations,
        "decision": decision,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    entry = dataclasses.replace(draft_entry(find_run(runs_root(runs), run)), **changes)
    if append:
        entry = dataclasses.replace(entry, id=append_entry(file, entry))
    answer = {
        "id": entry.id,
        "entry": dataclasses.asdict(entry),
        "markdown": render(entry),
        "appended_to": str(file) if append else None,
    }
    text = f"appended {entry.id} to {file}" if append else render(entry)
    _answer(answer, text, as_json)


def _wait(run: RunDir, as_json: bool) -> RunState:
    """Follow a run in the foreground; Ctrl-C stops the run and waits until it is gone."""
    from engine.runs.stopping import stop_run
    from grubrics_tui.progress import follow

    out = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        print(line, file=out, flush=True)

    try:
        return follow(run, say)
    except KeyboardInterrupt:
        say(f"stopping {run.id} ...")
        stop_run(run)
        return observed_state(run)


def _outcome(run: RunDir, state: RunState) -> str:
    return f"{run.id}  {describe(state)}\n{run.path}"


def _show_plan(argv: tuple[str, ...], changes: Any) -> None:
    import shlex

    print(f"$ {shlex.join(argv)}")
    for change in changes:
        print(f"  {change.key}: {change.before} -> {change.after} ({change.origin})")


def main() -> None:
    """Entry point of the console script: a person's mistake is one line and exit code 2."""
    sys.exit(guarded(_run))


def _run() -> int:
    load_env_file(os.environ)
    app()
    return 0
