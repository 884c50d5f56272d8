"""``grubrics-tui stop``: stop a run."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunArgument, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer
from grubrics_tui.commands.shared.trust import require_trust


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
    answer(done.to_json(), done.message, as_json)
    raise typer.Exit(0 if done.ended or after_checkpoint else 1)


COMMAND = Command(stop, Task.RUN)
