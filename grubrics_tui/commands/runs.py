"""``grubrics-tui runs``: list the runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs import columns
from engine.runs.columns import RunInfo
from engine.runs.rundir import archive_root, runs_root
from engine.runs.state import describe
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import print_json, say
from grubrics_tui.commands.shared.run_text import health_json, with_health
from grubrics_tui.text.terminal_text import clean_texts

if TYPE_CHECKING:
    from engine.doctor.health import Health


_EXAMINE_S = 2.0
"""CPU seconds per call for the health of newly finished runs; the next call continues."""
_CELL_WIDTH = 11
"""Width of a cell that declares none."""


def list_runs(
    archived: Annotated[
        bool, typer.Option("--archived", help="List archived runs instead")
    ] = False,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Filter, e.g. 'state:failed tag:x reward/mean>0.5'",
        ),
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs, newest first."""
    # Ten thousand rows live until they are printed: collecting garbage would only cost time.
    gc.disable()
    try:
        _print_runs(archived, chosen, runs, as_json)
    finally:
        gc.enable()


def _print_runs(archived: bool, chosen: str | None, runs: str | None, as_json: bool) -> None:
    from engine.runs import registry

    root = runs_root(runs)
    root = archive_root(root) if archived else root
    listed = registry.list_runs(root)
    empty_text = "no archived runs"
    if not archived:
        empty_text = (
            f"no runs in {root}. Try it: grubrics-tui demo. Watch a log: grubrics-tui watch PATH. "
            "Train on your data: grubrics-tui init DATA"
        )
    if chosen is not None and listed:
        listed, empty_text = filtered(root, listed, chosen), "no runs match the filter"
    from engine.doctor.health import UNKNOWN, HealthBook

    health = HealthBook(root).examine_all(listed, _EXAMINE_S)
    if as_json:
        rows = zip(columns.runs_to_json(listed), listed, strict=True)
        print_json({"runs": [row | health_json(health[info.id]) for row, info in rows]})
        return
    lines = clean_texts(_row(info, health[info.id]) for info in listed)
    print("".join(f"{row}\n" for row in lines), end="")
    if unchecked := sum(health[info.id] is UNKNOWN for info in listed):
        count = "1 finished run" if unchecked == 1 else f"{unchecked} finished runs"
        say(f"health of {count} not checked yet; the next call continues", to=sys.stderr)
    if not listed:
        say(empty_text)


def _row(info: RunInfo, health: Health | None) -> str:
    """Return ID, columns, state with health, and tags of a run."""
    cells = []
    for column in columns.COLUMNS:
        if (cell := column.cell) is not None and cell.in_text:
            text, width = column.text(info), cell.width or _CELL_WIDTH
            cells.append(text.rjust(width) if cell.right else text.ljust(width))
    tags = "".join(f"  #{tag}" for tag in info.notes.tags)
    return f"{info.id:<36} {' '.join(cells)} {with_health(describe(info.state), health)}{tags}"


def filtered(root: Any, listed: Sequence[Any], text: str) -> list[Any]:
    """Return the runs that match a filter; print a remark on a doubtful filter to stderr."""
    from engine.history.run_filter import RunFiles, RunFilter

    chosen, files = RunFilter(text), RunFiles(root)
    passed = list(chosen.select(listed, files))
    if (remark := chosen.remark(files)) is not None:
        say(f"note: {remark}", to=sys.stderr)
    return passed


COMMAND = Command(list_runs, Task.INSPECT)
