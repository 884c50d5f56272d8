"""``grubrics-tui run``: launch any command as a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from engine.base.errors import UsageError
from engine.base.text import format_command
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, option, options, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.follow import answer_launched
from grubrics_tui.commands.shared.trust import require_trust


def run(
    command: Annotated[
        list[str] | None,
        argument(
            "-- COMMAND...",
            "The command, e.g. -- torchrun train.py; with --from, words to add to it",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        option(
            "RUN",
            "Run the command of this run again, with the variables before it; secrets and all "
            "else of the environment are today's",
            "--from",
            autocompletion=complete_run,
        ),
    ] = None,
    name: Annotated[str | None, option("ID", "Run ID (default: PROGRAM-TIMESTAMP)")] = None,
    cwd: Annotated[Path | None, option("DIR", "Folder of the command (default: this one)")] = None,
    metrics: Annotated[
        str | None,
        option(
            "PATH|PATTERN",
            "File or folder of metrics, or a pattern of the lines that it prints, e.g. "
            r"'iter (?P<step>\d+): loss (?P<loss>\S+)' (default: known formats)",
        ),
    ] = None,
    gpus: Annotated[
        int | None, option("K", "Number of GPUs (default: all that can be seen)", min=0)
    ] = None,
    as_format: Annotated[
        str | None,
        option("FORMAT", "Format of its metrics (default: detected from content)", "--as"),
    ] = None,
    guard: Annotated[
        str | None, option("NAME,NAME", "Stop the run on these findings, e.g. critical,loss_nan")
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "Setting of guard or supervision, e.g. supervision.stall_floor_s=600; may be repeated",
            "--set",
        ),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "Submit it with sbatch and this option, e.g. partition=gpu; may be repeated",
        ),
    ] = None,
    wait: Annotated[bool, flag("Print progress until the run ends")] = False,
    dry_run: options.DryRunOption = False,
    after: options.AfterOption = None,
    queue: options.QueueOption = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run any command in the background.

    It is supervised like a run of a config, and its metrics are read from what it prints.
    With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.command import (
        launch_command,
        plan_command,
        plan_command_again,
        read_settings,
    )

    root, words = runs_root(runs), command or []
    if source is not None:
        given = {
            "--cwd": cwd,
            "--metrics": metrics,
            "--gpus": gpus,
            "--as": as_format,
            "--guard": guard,
            "--set": settings,
            "--slurm": slurm,
        }
        _refuse_with_source(given)
        run = find_run(root, source)
        require_trust(run, trust, executes=True)
        plan = plan_command_again(run, root, words, name=name, after=after, queue=queue)
    else:
        if not words:
            raise UsageError("name the command: grubrics-tui run -- COMMAND, or a run: --from RUN")
        plan = plan_command(
            words,
            root,
            name=name,
            cwd=cwd,
            after=after,
            queue=queue,
            gpus=gpus,
            metrics=metrics,
            log_format=as_format,
            slurm=slurm or (),
            settings=read_settings(guard, settings or ()),
        )
    if not as_json:
        say(f"$ {format_command(plan.shown_argv)}")
    value = {"run": plan.directory.name, "dir": str(plan.directory), "argv": plan.shown_argv}
    if dry_run:
        answer({**value, "state": None}, "dry run: nothing was launched", as_json)
        return
    answer_launched(launch_command(plan), value, wait=wait, as_json=as_json)


def _refuse_with_source(given: Mapping[str, object]) -> None:
    """Raise UsageError if one of these options was given."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} cannot be changed with --from. Give the whole command")


COMMAND = Command(run, Task.RUN, ends_with_words=True)
