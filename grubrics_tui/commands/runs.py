"""``grubrics-tui runs``: list the runs."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec.structs import replace

from engine.base.errors import UsageError
from engine.run import columns
from engine.run.columns import Column, RunRow
from engine.run.run import archive_root, runs_root
from grubrics_tui.commands.shared import Command, Task, flag, option, options, print_json, say
from grubrics_tui.commands.shared.output import cut_lines, terminal_width
from grubrics_tui.commands.shared.run_text import health_json
from grubrics_tui.settings.state_files import ListViewFile
from grubrics_tui.text.terminal_text import clean_texts, cut_name, fit_cell, head_of_cut

if TYPE_CHECKING:
    from engine.doctor.health import Health


_EXAMINE_S = 2.0
"""CPU seconds of a call after which no newly finished run is examined; the next call continues.

The first list of many runs takes that long without the doctor."""


def list_runs(
    archived: Annotated[bool, flag("List archived runs instead", "--archived")] = False,
    chosen: Annotated[
        str | None,
        option(
            "EXPR",
            "Filter, e.g. 'state:failed tag:x reward/mean>0.5', or the name of a saved one",
            "--filter",
        ),
    ] = None,
    shown: Annotated[
        str | None,
        option(
            "NAMES", "Columns to print, also config keys and metrics, e.g. id,state,lr", "--columns"
        ),
    ] = None,
    order: Annotated[
        str | None,
        option(
            "NAME",
            "Sort by a column, e.g. reward: highest first. -reward reverses "
            "(default: the newest first)",
            "--sort",
        ),
    ] = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the runs, newest first."""
    # Ten thousand rows live until they are printed: collecting garbage would only cost time.
    gc.disable()
    try:
        _print_runs(archived, chosen, shown, order, runs, as_json)
    finally:
        gc.enable()


def _print_runs(
    archived: bool,
    chosen: str | None,
    shown: str | None,
    order: str | None,
    runs: str | None,
    as_json: bool,
) -> None:
    from engine.run import registry
    from engine.run.history.run_filter import RunFiles

    deadline = time.process_time() + _EXAMINE_S
    chosen = None if chosen is None else ListViewFile().load().filters.get(chosen, chosen)
    root = runs_root(runs)
    root = archive_root(root) if archived else root
    files = RunFiles(root)
    table = None
    if shown is not None:
        table = columns.find_columns(shown.replace(",", " ").split(), files.column)
    listed = registry.list_runs(root)
    empty_text = "no archived runs"
    if not archived:
        absent = "" if root.is_dir() else ", which does not exist"
        empty_text = (
            f"no runs in {root}{absent}. Try it: grubrics-tui demo. "
            "Watch a log: grubrics-tui watch PATH. Train on your data: grubrics-tui init DATA"
        )
    from engine.doctor.health import UNKNOWN, HealthBook, format_health

    book = HealthBook(root)

    def with_health(infos: Sequence[RunRow]) -> list[RunRow]:
        health.update(book.examine_all(infos, deadline - time.process_time()))
        return [replace(info, health=format_health(health[info.id])) for info in infos]

    health: dict[str, Health | None] = {}
    if chosen is not None and listed:
        # Otherwise, only the runs that pass are examined.
        listed = with_health(listed) if asks_health(chosen) else listed
        listed, empty_text = filtered(root, listed, chosen), "no runs match the filter"
    if not health:
        listed = with_health(listed)
    if order is not None:
        listed = columns.sort_runs(listed, order)
    if as_json:
        rows = zip(columns.runs_to_json(listed), listed, strict=True)
        print_json({"runs": [row | health_json(health[info.id]) for row, info in rows]})
        return
    if listed:
        lines = [*clean_texts(format_runs(listed, table, width=terminal_width()))]
        if problem := next(filter(None, (files.missing(each.name) for each in table or ())), None):
            raise UsageError(f"--columns: no listed run has a {problem}")
        print("".join(f"{row}\n" for row in cut_lines(lines)), end="")
    if unchecked := sum(health[info.id] is UNKNOWN for info in listed):
        count = "1 finished run" if unchecked == 1 else f"{unchecked} finished runs"
        say(f"health of {count} not checked yet; the next call continues", to=sys.stderr)
    if not listed:
        say(empty_text)


def asks_health(text: str) -> bool:
    from engine.run.history.run_filter import RunFilter

    return RunFilter(text).asks_health


def filtered(root: Any, listed: Sequence[Any], text: str) -> list[Any]:
    """Return the runs that match a filter; print a remark on a doubtful filter to stderr.

    UsageError for a config key that none of them has.
    """
    from engine.run.history.run_filter import RunFiles, RunFilter

    chosen, files = RunFilter(text), RunFiles(root)
    passed = list(chosen.select(listed, files))
    if not passed and (remark := chosen.remark(files, of_keys=True)) is not None:
        raise UsageError(f"filter: {remark}")
    if (remark := chosen.remark(files)) is not None:
        say(f"note: {remark}", to=sys.stderr)
    return passed


_GAP = "  "
_LONGEST_TEXT = 60
"""Characters of a column that declares no width."""
_WHY = 24
"""Characters that a narrow terminal leaves to the reason, as far as some run has one."""


def format_runs(
    runs: Sequence[RunRow], chosen: Sequence[Column] | None = None, *, width: int | None = None
) -> Iterator[str]:
    """Yield a line of heads and one of each run; without a ``width``, no value is cut.

    Without ``chosen``: ID and state, the columns that have a cell and of which some run has a
    value, as far as they fit, and why the run is in its state, its health and its tags.
    """
    if chosen is not None:
        widths = {column: _width(column, runs, whole=width is None) for column in chosen}
        table = [_column(column, runs, size) for column, size in widths.items()]
    else:
        table = _usual_table(runs, width)
    return (_GAP.join(cells).rstrip() for cells in zip(*table, strict=True))


def _usual_table(runs: Sequence[RunRow], width: int | None) -> list[list[str]]:
    first = columns.find_columns(["id", "state"])
    cells = {c: _width(c, runs, whole=width is None) for c in columns.listed_columns(runs)}
    reasons = ["why", *map(_why, runs)]
    ids, states = (_column(column, runs, _width(column, runs, whole=True)) for column in first)
    if width is not None:
        longest = max(12, width // 3)
        head = head_of_cut([run.id for run in runs], longest)
        ids = [cut_name(id.rstrip(), longest, head).ljust(min(len(id), longest)) for id in ids]
        taken = len(ids[0]) + len(states[0]) + min(_WHY, max(map(len, reasons))) + 2 * len(_GAP)
        cells = columns.fit_cells(cells, width - taken)
    return [ids, states, *(_column(column, runs, size) for column, size in cells.items()), reasons]


def _width(column: Column, runs: Iterable[RunRow], *, whole: bool) -> int:
    cell = column.cell
    longest = max(map(len, [column.head, *map(column.text, runs)]))
    width = (cell and cell.width) or min(cell.most if cell else _LONGEST_TEXT, longest)
    return max(width, longest) if whole else width


def _column(column: Column, runs: Iterable[RunRow], width: int) -> list[str]:
    """The head and the texts of a column, all of one width."""
    right = bool(column.cell and column.cell.right)
    return [fit_cell(text, width, right) for text in [column.head, *map(column.text, runs)]]


def _why(run: RunRow) -> str:
    """``unhealthy: KL explodes since step 12  #night``."""
    health = run.health if run.health.startswith(("unhealthy", "not")) else ""
    reason = run.state.reason or run.state.waiting_for or ""
    return "  ".join(filter(None, [health, reason, *(f"#{tag}" for tag in run.notes.tags)]))


COMMAND = Command(list_runs, Task.INSPECT)
