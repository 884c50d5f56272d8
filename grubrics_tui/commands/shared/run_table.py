"""The list of runs as lines of text, under heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.runs import columns
from engine.runs.columns import Column, RunInfo
from grubrics_tui.text.formats import cut_cell, cut_name, head_of_cut

_GAP = "  "
_LONGEST_TEXT = 60
"""Characters of a column that declares no width."""
_WHY = 24
"""Characters that a narrow terminal leaves to the reason, as far as some run has one."""


def format_runs(
    runs: Sequence[RunInfo], chosen: Sequence[Column] | None = None, *, width: int | None = None
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


def _usual_table(runs: Sequence[RunInfo], width: int | None) -> list[list[str]]:
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


def _width(column: Column, runs: Iterable[RunInfo], *, whole: bool) -> int:
    cell = column.cell
    longest = max(map(len, [column.head, *map(column.text, runs)]))
    width = (cell and cell.width) or min(cell.most if cell else _LONGEST_TEXT, longest)
    return max(width, longest) if whole else width


def _column(column: Column, runs: Iterable[RunInfo], width: int) -> list[str]:
    """The head and the texts of a column, all of one width."""
    right = bool(column.cell and column.cell.right)
    texts = (cut_cell(text, width, right) for text in [column.head, *map(column.text, runs)])
    return [text.rjust(width) if right else text.ljust(width) for text in texts]


def _why(run: RunInfo) -> str:
    """``unhealthy: KL explodes since step 12  #night``."""
    health = run.health if run.health.startswith(("unhealthy", "not")) else ""
    reason = run.state.reason or run.state.waiting_for or ""
    return "  ".join(filter(None, [health, reason, *(f"#{tag}" for tag in run.notes.tags)]))
