"""The list of runs as lines of text, under heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from engine.runs import columns
from engine.runs.columns import Column, RunInfo
from engine.runs.state import describe

_GAP = "  "
_LONGEST_TEXT = 60
"""Characters of a column that declares no width."""


def format_runs(
    runs: Sequence[RunInfo], chosen: Sequence[Column] | None = None, *, whole: bool = False
) -> Iterator[str]:
    """Yield a line of heads and one of each run; of ``whole`` values, none is cut.

    Without ``chosen``: the ID, the columns that have a cell and of which some run has a value, and
    the state with its reason, the health and the tags of the run.
    """
    if chosen is not None:
        table = [_column(column, runs, whole) for column in chosen]
    else:
        (name,) = columns.find_columns(["id"])
        table = [_column(column, runs, whole) for column in (name, *columns.listed_columns(runs))]
        table.append(_outcomes(runs))
    return (_GAP.join(cells).rstrip() for cells in zip(*table, strict=True))


def _column(column: Column, runs: Iterable[RunInfo], whole: bool) -> list[str]:
    """The head and the texts of a column, all of one width."""
    cell = column.cell
    texts = [column.head, *map(column.text, runs)]
    longest = max(map(len, texts))
    most = cell.most if cell else _LONGEST_TEXT
    width = (cell and cell.width) or min(most, longest)
    if whole:
        width = max(width, longest)
    pad: Callable[[str, int], str] = str.rjust if cell and cell.right else str.ljust
    return [pad(text if len(text) <= width else f"{text[: width - 1]}…", width) for text in texts]


def _outcomes(runs: Iterable[RunInfo]) -> list[str]:
    return list(chain(["state"], map(_outcome, runs)))


def _outcome(run: RunInfo) -> str:
    """``finished, unhealthy: KL explodes since step 12  #night``."""
    health = f", {run.health}" if run.health.startswith(("unhealthy", "not")) else ""
    return describe(run.state) + health + "".join(f"  #{tag}" for tag in run.notes.tags)
