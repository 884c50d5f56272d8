"""``grubrics-tui queue``: list or release the queued runs."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import answer


def queue(
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
    answer(line.to_json(), f"{text}\n{line.held}" if line.held else text, as_json)


COMMAND = Command(queue, Task.RUN)
