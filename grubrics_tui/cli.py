"""The command line: every screen action has a twin here. Starts without Textual."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated

import typer

from engine.base.errors import UsageError, guarded
from engine.recipe.env_file import load_env_file
from engine.runs.rundir import RunDir, find_run, runs_root
from grubrics_tui.commands import (
    compare_command,
    config_command,
    diagnose_command,
    estimate_command,
    judge_command,
    launch_command,
    put_away,
    remedy_command,
    rollouts_command,
    settings_command,
    show_command,
    twin_command,
    watching,
)
from grubrics_tui.commands.options import (
    FormatOption,
    JsonOption,
    RunArgument,
    RunsOption,
    on_terminal,
    say,
)
from grubrics_tui.commands.options import answer as _answer
from grubrics_tui.commands.options import print_json as _print_json
from grubrics_tui.commands.trusting import TrustOption, require_config_trust, require_trust
from grubrics_tui.text.terminal_text import clean_text

app = typer.Typer(
    name="grubrics-tui",
    help="A terminal cockpit for LLM post-training.",
    no_args_is_help=False,
    add_completion=False,
    # Text in [brackets] is shown as written: markup would take it for a style and drop it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_FIRST_RECIPE = "grpo_tiny"


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        # Not needed, and not cheap, in any other command.
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("grubrics-tui")
        except PackageNotFoundError:
            number = "from a folder, not installed"
        typer.echo(f"grubrics-tui {number}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def cockpit(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(help="Recipe that the checklist opens on [default: grpo_tiny, if it is here]"),
    ] = None,
    runs: RunsOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="A screen that launches, stops and deletes nothing")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    """Open the screen; without a terminal, run the recipe headless."""
    if context.invoked_subcommand is not None:
        return
    require_config_trust(config or _FIRST_RECIPE, trust=False)
    if on_terminal():
        from grubrics_tui.app.app import GrubricsApp
        from grubrics_tui.settings.settings import load_settings

        loaded = load_settings(read_only=read_only)
        # In a folder with recipes of its own the person chooses one of them.
        first = _FIRST_RECIPE if Path("configs", f"{_FIRST_RECIPE}.yaml").is_file() else ""
        GrubricsApp(runs_root(runs), config or first, loaded=loaded).run()
        return
    if read_only:
        raise UsageError("--read-only is about the screen, and this is no terminal")
    launch_command.launch(config or _FIRST_RECIPE, wait=True, runs=runs)


app.command()(launch_command.check)
app.command()(launch_command.launch)
app.command()(config_command.config)


@app.command("queue")
def queue_command(
    go_on: Annotated[
        bool, typer.Option("--release", help="Go on after two failures stopped the queue")
    ] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs that wait, first in line first, and what each waits for."""
    from engine.supervise.queue import line_up
    from engine.supervise.queue_log import release

    root = runs_root(runs)
    if go_on and line_up(root).held:
        release(root)
    line = line_up(root)
    rows = [f"{place:>3}  {one.id:<36} {one.phrase}" for place, one in enumerate(line.runs, 1)]
    text = "\n".join(rows) if rows else "no run waits"
    _answer(line.to_json(), f"{text}\n{line.held}" if line.held else text, as_json)


app.command("runs")(show_command.list_runs)
app.command()(show_command.show)


@app.command()
def series(
    run: Annotated[str, typer.Argument(metavar="RUN|PATH", help="A run's id, or a path")],
    metrics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[METRIC...]", help="Names; omit them to list the names"),
    ] = None,
    as_format: FormatOption = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print metrics of a run, or of what another trainer wrote, step by step."""
    from engine.formats import series as source

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
            print(f"{clean_text(name)}\t{step}\t{'nan' if value is None else value}")


app.command()(watching.watch)


@app.command()
def stop(
    run: RunArgument,
    after_checkpoint: Annotated[
        bool, typer.Option("--after-checkpoint", help="Let the next checkpoint complete first")
    ] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a run and wait until nothing of it is left."""
    from engine.supervise.ray_job import has_open_jobs
    from engine.supervise.stopping import stop_run

    found = find_run(runs_root(runs), run)
    require_trust(found, trust, executes=has_open_jobs(found))
    done = stop_run(found, after_checkpoint=after_checkpoint)
    _answer(done.to_json(), done.message, as_json)
    raise typer.Exit(0 if done.ended or after_checkpoint else 1)


app.command()(launch_command.resume)


@app.command()
def reap(
    yes: Annotated[
        bool, typer.Option("--yes", help="Kill the processes and delete the Ray directories listed")
    ] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show processes and Ray directories that ended runs left behind; --yes ends exactly these."""
    from engine.supervise import private_ray
    from engine.supervise.reaper import leftovers
    from engine.supervise.reaper import reap as end

    root = runs_root(runs)
    found = leftovers(root)
    if yes and trust:
        for directory in {one.directory for one in found}:
            require_trust(RunDir(directory), trust)
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
app.command()(diagnose_command.diagnose)
app.command()(estimate_command.estimate)
app.command("judge-test")(judge_command.judge_test)
app.command()(remedy_command.remedy)
app.command()(twin_command.reproduce)
app.command("pipeline-check")(twin_command.pipeline_check)


@app.command()
def log(
    run: RunArgument,
    append: Annotated[bool, typer.Option("--append", help="Append it to the log file")] = False,
    title: Annotated[str | None, typer.Option(help="Title of the entry")] = None,
    question: Annotated[str | None, typer.Option(help="Research question it attacks")] = None,
    observations: Annotated[str | None, typer.Option(help="What was observed")] = None,
    decision: Annotated[str | None, typer.Option(help="What was decided")] = None,
    file: Annotated[Path, typer.Option(help="Log file")] = Path("docs/experiment-log.md"),
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a run's experiment-log entry from its files; --append writes it."""
    import dataclasses

    from engine.reports.experiment_log import append_entry, draft_entry, render

    given = {
        "title": title,
        "question": question,
        "observations": observations,
        "decision": decision,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    found = find_run(runs_root(runs), run)
    if append:
        require_trust(found, trust)
    entry = dataclasses.replace(draft_entry(found), **changes)
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


def main() -> None:
    """Entry point of the console script: a person's mistake is one line and exit code 2."""
    sys.exit(guarded(_run))


def _run() -> int:
    for complaint in load_env_file(os.environ):
        say(f"warning: {complaint}", to=sys.stderr)
    atexit.register(gc.freeze)  # What is left then goes with the process: nothing to collect.
    _app_for(sys.argv[1:])()
    return 0


def _app_for(arguments: Sequence[str]) -> typer.Typer:
    """The program with the one command that is asked for: Typer prepares every one it knows."""
    asked = [one for one in app.registered_commands if arguments[:1] == [_name_of(one)]]
    chosen = copy(app)
    chosen.registered_commands = asked or app.registered_commands
    return chosen


def _name_of(command: typer.models.CommandInfo) -> str | None:
    return command.name or (command.callback and command.callback.__name__)
