"""``grubrics-tui metrics``: print metric values step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    FormatOption,
    JsonOption,
    RunOrLogArgument,
    RunsOption,
)
from grubrics_tui.commands.shared.output import print_json
from grubrics_tui.commands.shared.standard_input import STANDARD_INPUT, standard_input_read
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.formats.series import Series


def metrics(
    run: RunOrLogArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH...] [METRIC...]",
            help="More logs, then metric names; omit the names to list the available ones",
        ),
    ] = None,
    as_format: FormatOption = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print metric values per step, of runs or external logs.

    Of several, each line begins with the log, and --json has the logs in "sources".
    """
    from engine.formats import series as source

    words = [run, *(names or ())]
    count = 1 + sum(1 for _ in takewhile(_is_path, words[1:]))
    given, metric_names = words[:count], words[count:]
    with standard_input_read(given) as paths:
        tables = [
            source.read_columns(path, runs_root(runs), metric_names, as_format) for path in paths
        ]
    answers = {
        label: {name: source.series(columns, name, label) for name in metric_names}
        if metric_names
        else source.names(columns)
        for label, columns in zip(given, tables, strict=True)
    }
    key = "series" if metric_names else "names"
    if as_json:
        per_source = {label: {key: value} for label, value in answers.items()}
        print_json({"sources": per_source} if count > 1 else per_source[run])
        return
    for label, value in answers.items():
        for line in _lines(value):
            print(clean_text(label) + "\t" + line if count > 1 else line)


def _is_path(word: str) -> bool:
    return word == STANDARD_INPUT or Path(word).exists()


def _lines(value: Sequence[str] | Mapping[str, Series]) -> Iterator[str]:
    """Yield the names of metrics, or their values by step."""
    if not isinstance(value, Mapping):
        yield from map(clean_text, value)
        return
    for name, points in value.items():
        for step, number in points:
            yield f"{clean_text(name)}\t{step}\t{'nan' if number is None else number}"


COMMAND = Command(metrics, Task.INSPECT, aliases=("series",))
