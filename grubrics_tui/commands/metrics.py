"""``grubrics-tui metrics``: print metric values step by step."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    FormatOption,
    JsonOption,
    RunOrLogArgument,
    RunsOption,
)
from grubrics_tui.commands.shared.output import answer, print_json
from grubrics_tui.text.terminal_text import clean_text


def metrics(
    run: RunOrLogArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[METRIC...]", help="Metric names; omit to list the available ones"),
    ] = None,
    as_format: FormatOption = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print metric values per step, of a run or an external log."""
    from engine.formats import series as source

    columns = source.read_columns(run, runs_root(runs), names or (), as_format)
    if not names:
        known_names = source.names(columns)
        answer({"names": known_names}, "\n".join(known_names), as_json)
        return
    values = {name: source.series(columns, name) for name in names}
    if as_json:
        print_json({"series": values})
        return
    for name, points in values.items():
        for step, value in points:
            print(f"{clean_text(name)}\t{step}\t{'nan' if value is None else value}")


COMMAND = Command(metrics, Task.INSPECT, aliases=("series",))
