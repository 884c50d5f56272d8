"""The numbers of a chart as a table: a row per step, a column per quantity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from engine.run.history.columns import Floats
from engine.run.history.plot import Plot, Values
from grubrics_tui.drawing.axis import format_place, has_times, places
from grubrics_tui.drawing.spans import Row, Span

_GAP = 2
_NARROWEST = 6
"""Cells of the narrowest column: scrolling then mostly leaves the columns where they are."""


def quantities(plot: Plot) -> list[Values]:
    """Return what has a column: lines and the facts of their bands, marks, facts."""
    banded = (fact for line in plot.lines for band in line.bands for fact in band.facts)
    candidates = chain(plot.lines, plot.marks, banded, plot.facts)
    labels: dict[str, Values] = {}
    for values in candidates:
        labels.setdefault(values.label, values)
    return list(labels.values())


def table(plot: Plot, cursor: float | None, width: int, height: int) -> list[Row]:
    """Return rows of the steps around ``cursor``, or of the newest ones, in ascending order.

    Of a timed plot, a row is a moment. A missing value is blank, a NaN is a dash. Columns without
    room are left out, the time first, and the header counts the hidden ones.
    """
    columns = quantities(plot)
    steps = _steps_shown(columns, cursor, height - 1)
    if not steps.size or height < 2:
        return [[] for _ in range(height)]
    texts = [_cells(values, steps) for values in columns]
    heads, body = [values.label for values in columns], texts
    if plot.timed or (plot.clock is not None and has_times(plot.clock)):
        times = steps if plot.timed else places(steps, plot.clock, "clock")
        heads.insert(0, "time")
        body.insert(0, [format_place(moment, "clock", 60) for moment in times.tolist()])
    if not plot.timed:
        heads.insert(0, "step")
        body.insert(0, [f"{step:.0f}" for step in steps])
    widths = _widths(heads, body)
    if heads[0] == "step" and heads[1:2] == ["time"] and _fitting(widths, width) < len(heads):
        del heads[1], body[1]  # The step also locates a row; a value has no substitute.
        widths = _widths(heads, body)
    if _fitting(widths, width) == 1 < len(heads):
        # A small chart has room for a value if the step takes no more than it needs.
        widths[0] = max(map(len, [heads[0], *body[0]])) - _GAP
    fit = _fitting(widths, width)
    hidden = len(heads) - fit
    head = _line(heads[:fit], widths, "quiet")
    more = [Span(f"  +{hidden}", "quiet")] if hidden else []
    rows = [head + more]
    chosen = -1 if cursor is None else int(np.argmin(np.abs(steps - cursor)))
    for index in range(steps.size):
        is_chosen = index == chosen
        line = _line([cells[index] for cells in body[:fit]], widths, "cursor" if is_chosen else "")
        rows.append([Span(span.text, span.ink, "", is_chosen) for span in line])
    return rows


def neighbor(plot: Plot, cursor: float | None, rows: int) -> float | None:
    """Return the step ``rows`` below the cursor (negative: above), or the newest without one."""
    columns = quantities(plot)
    if cursor is None:
        newest = _steps_shown(columns, None, 1)
        return float(newest[0]) if newest.size else None
    window = _around(columns, cursor, abs(rows) + 1)
    index = int(np.searchsorted(window, cursor))
    target = min(max(0, index + rows), window.size - 1)
    return float(window[target]) if window.size else None


def _steps_shown(columns: Sequence[Values], cursor: float | None, rows: int) -> Floats:
    newest = max((float(v.x[-1]) for v in columns if v.x.size), default=0.0)
    middle = newest if cursor is None else cursor
    steps = _around(columns, middle, rows)
    index = int(np.searchsorted(steps, middle))
    first = max(0, min(index - rows // 2, steps.size - rows))
    return steps[first : first + rows]


def _around(columns: Sequence[Values], center: float, reach: int) -> Floats:
    """Return the steps of all columns, up to ``reach`` before and after ``center``.

    Takes time in proportion to ``reach``, not to the number of steps.
    """
    parts = [np.empty(0)]
    for values in columns:
        index = int(np.searchsorted(values.x, center))
        parts.append(values.x[max(0, index - reach) : index + reach + 1])
    return np.unique(np.concatenate(parts))


def _cells(values: Values, steps: Floats) -> list[str]:
    values_at = [values.at(step) for step in steps.tolist()]
    return [
        values.write(value) if x == step else ""
        for (x, value), step in zip(values_at, steps.tolist(), strict=True)
    ]


def _widths(heads: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(_NARROWEST, len(head), *map(len, cells))
        for head, cells in zip(heads, body, strict=True)
    ]


def _fitting(widths: Sequence[int], width: int) -> int:
    """Return how many columns fit; at least one."""
    ends = np.cumsum([size + _GAP for size in widths])
    if ends[-1] <= width:
        return len(widths)
    return max(1, int(np.searchsorted(ends, width - 5, side="right")))


def _line(cells: Sequence[str], widths: Sequence[int], ink: str) -> Row:
    text = "".join(
        cell.rjust(size + _GAP) for cell, size in zip(cells, widths[: len(cells)], strict=True)
    )
    return [Span(text, ink)]
