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
        bool, typer.Option("--after-checkpoint", help="Stop after the next checkpoint is saved")
    ] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a run and wait until its processes have exited.

    Exits with 1 if some are still running.
    """
    from engine.supervise.cluster_jobs import has_open_jobs
    from engine.supervise.stopping import stop_run

    chosen = find_run(runs_root(runs), run)
    require_trust(chosen, trust, executes=has_open_jobs(chosen))
    done = stop_run(chosen, after_checkpoint=after_checkpoint)
    answer(done.to_json(), done.message, as_json)
    raise typer.Exit(0 if done.ended or after_checkpoint else 1)


COMMAND = Command(stop, Task.RUN)
