"""``grubrics-tui queue``: list or release the queued runs."""

from __future__ import annotations

from typing import Annotated

from engine.base.tables import aligned_lines
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, options


def queue(
    releases: Annotated[
        bool, flag("Release a queue that is held after two early failures", "--release")
    ] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List queued runs and what each one is waiting for."""
    from engine.supervise.queue import line_up, release

    root = runs_root(runs)
    if releases and line_up(root).held:
        release(root)
    line = line_up(root)
    rows = [(str(n), queued.id, queued.phrase) for n, queued in enumerate(line.runs, 1)]
    text = "\n".join(aligned_lines(rows)) or "no queued runs"
    answer(line, f"{text}\n{line.held}" if line.held else text, as_json)


COMMAND = Command(queue, Task.RUN)
