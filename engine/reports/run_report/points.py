"""Which points of a long curve are drawn: the lowest and the highest of each column of pixels."""

from __future__ import annotations

import numpy as np

from engine.base.ticks import Range
from engine.history.columns import Floats, Ints


def kept_points(steps: Floats, values: Floats, x: Range, columns: int) -> Ints:
    """The indices of the points to draw, ascending: all of a short curve.

    Of a curve with more than two points per column: the first, the last, and the lowest and highest
    of each column, so that a single step that sticks out is drawn. Points without a number are left
    out.
    """
    finite = np.flatnonzero(np.isfinite(values))
    if finite.size <= 2 * columns:
        return finite
    shares = (steps[finite] - x.low) / x.size
    column = np.clip((shares * columns).astype(np.int64), 0, columns - 1)
    order = np.lexsort((values[finite], column))
    is_new = np.diff(column[order]) != 0
    lowest = order[np.concatenate([[True], is_new])]
    highest = order[np.concatenate([is_new, [True]])]
    kept: Ints = np.unique(np.concatenate([[0], lowest, highest, [finite.size - 1]]))
    return finite[kept]


def find_pieces(kept: Ints, values: Floats) -> list[Ints]:
    """The kept points in pieces that a line connects: a step without a number divides them."""
    if not kept.size:
        return []
    missing = np.cumsum(~np.isfinite(values))
    breaks = np.flatnonzero(np.diff(missing[kept])) + 1
    return np.split(kept, breaks)


def missing_places(steps: Floats, values: Floats, x: Range, columns: int) -> Floats:
    """The steps without a number, at most one of each column."""
    steps = steps[~np.isfinite(values)]
    column = ((steps - x.low) / x.size * columns).astype(np.int64)
    return steps[np.unique(column, return_index=True)[1]]
