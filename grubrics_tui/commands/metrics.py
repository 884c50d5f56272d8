"""``grubrics-tui metrics``: print metric values step by step."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import FormatOption, JsonOption, RunsOption
from grubrics_tui.commands.shared.output import answer, print_json
from grubrics_tui.text.terminal_text import clean_text


def metrics(
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
        answer({"names": names}, "\n".join(names), as_json)
        return
    found = {name: source.series(steps, name) for name in metrics}
    if as_json:
        print_json({"series": found})
        return
    for name, points in found.items():
        for step, value in points:
            print(f"{clean_text(name)}\t{step}\t{'nan' if value is None else value}")


COMMAND = Command(metrics, Task.INSPECT, aliases=("series",))
