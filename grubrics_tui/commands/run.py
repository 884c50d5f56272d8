"""``grubrics-tui run``: launch any command as a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.follow import answer_launched
from grubrics_tui.commands.shared.options import (
    AfterOption,
    DryRunOption,
    JsonOption,
    QueueOption,
    RunsOption,
)
from grubrics_tui.commands.shared.output import answer, say


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The command, e.g. -- torchrun train.py"),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="Run ID (default: PROGRAM-TIMESTAMP)")
    ] = None,
    cwd: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the command (default: this one)")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|PATTERN",
            help="File or folder of metrics, or a pattern of the lines that it prints, e.g. "
            r"'iter (?P<step>\d+): loss (?P<loss>\S+)' (default: known formats)",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=0, metavar="K", help="Number of GPUs (default: all that can be seen)"),
    ] = None,
    as_format: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="FORMAT", help="Format of its metrics (default: detected from content)"
        ),
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME", help="Stop the run on these findings, e.g. critical,loss_nan"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of guard or supervision, e.g. supervision.stall_floor_s=600; may be "
            "repeated",
        ),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Submit it with sbatch and this option, e.g. partition=gpu; may be repeated",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Print progress until the run ends")] = False,
    dry_run: DryRunOption = False,
    after: AfterOption = None,
    queue: QueueOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run any command in the background.

    It is supervised like a run of a config, and its metrics are read from what it prints.
    With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.command import launch_command, plan_command
    from engine.launch.command_settings import read_settings

    plan = plan_command(
        command,
        runs_root(runs),
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
        say(f"$ {shlex.join(plan.shown_argv)}")
    value = {"run": plan.directory.name, "dir": str(plan.directory), "argv": plan.shown_argv}
    if dry_run:
        answer({**value, "state": None}, "dry run: nothing was launched", as_json)
        return
    answer_launched(launch_command(plan), value, wait=wait, as_json=as_json)


COMMAND = Command(run, Task.RUN, ends_with_words=True)
