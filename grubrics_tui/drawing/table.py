"""The numbers of a chart as a table: a row per step, a column per quantity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from engine.history.columns import Floats
from grubrics_tui.drawing.axis import format_place, has_times, places
from grubrics_tui.drawing.chart_data import Plot, Values
from grubrics_tui.drawing.spans import Row, Span

_GAP = 2
_NARROWEST = 6
"""Cells of the narrowest column: scrolling then mostly leaves the columns where they are."""


def quantities(plot: Plot) -> list[Values]:
    """What has a column of its own: lines with what their bands say, marks, facts."""
    banded = (fact for line in plot.lines for band in line.bands for fact in band.facts)
    found = chain(plot.lines, plot.marks, banded, plot.facts)
    labels: dict[str, Values] = {}
    for values in found:
        labels.setdefault(values.label, values)
    return list(labels.values())


def table(plot: Plot, cursor: float | None, width: int, height: int) -> list[Row]:
    """Steps around ``cursor``, else the newest, oldest first; every x is a step,
    of a timed plot a moment.

    What a step has no value of is left blank, a NaN is a dash. Columns that have no room are left
    out, the time before any value, and the header says how many values.
    """
    columns = quantities(plot)
    steps = _steps_shown(columns, cursor, height - 1)
    if not steps.size or height < 2:
        return [[] for _ in range(height)]
    texts = [_cells(values, steps) for values in columns]
    heads, body = [values.label for values in columns], texts
    if plot.timed or (plot.clock is not None and has_times(plot.clock)):
        heads.insert(0, "time")
        body.insert(0, [format_place(moment, "clock", 60) for moment in _times(plot, steps)])
    if not plot.timed:
        heads.insert(0, "step")
        body.insert(0, [f"{step:.0f}" for step in steps])
    widths = _widths(heads, body)
    if heads[0] == "step" and heads[1:2] == ["time"] and _fitting(widths, width) < len(heads):
        del heads[1], body[1]  # The step says when as well; values have nothing to stand for them.
        widths = _widths(heads, body)
    fit = _fitting(widths, width)
    hidden = len(heads) - fit
    head = _line(heads[:fit], widths, "quiet")
    rest = [Span(f"  +{hidden}", "quiet")] if hidden else []
    rows = [head + rest]
    chosen = -1 if cursor is None else int(np.argmin(np.abs(steps - cursor)))
    for index in range(steps.size):
        here = index == chosen
        line = _line([cells[index] for cells in body[:fit]], widths, "cursor" if here else "")
        rows.append([Span(span.text, span.ink, "", here) for span in line])
    return rows


def neighbor(plot: Plot, cursor: float | None, rows: int) -> float | None:
    """The step that many rows below (above, when negative) the cursor; the newest without one."""
    columns = quantities(plot)
    if cursor is None:
        newest = _steps_shown(columns, None, 1)
        return float(newest[0]) if newest.size else None
    window = _around(columns, cursor, abs(rows) + 1)
    here = int(np.searchsorted(window, cursor))
    place = min(max(0, here + rows), window.size - 1)
    return float(window[place]) if window.size else None


def _steps_shown(columns: Sequence[Values], cursor: float | None, rows: int) -> Floats:
    newest = max((float(v.x[-1]) for v in columns if v.x.size), default=0.0)
    middle = newest if cursor is None else cursor
    steps = _around(columns, middle, rows)
    here = int(np.searchsorted(steps, middle))
    first = max(0, min(here - rows // 2, steps.size - rows))
    return steps[first : first + rows]


def _around(columns: Sequence[Values], place: float, reach: int) -> Floats:
    """The steps that any column has, up to ``reach`` before and after ``place``.

    Costs what is shown, not what there is.
    """
    parts = [np.empty(0)]
    for values in columns:
        here = int(np.searchsorted(values.x, place))
        parts.append(values.x[max(0, here - reach) : here + reach + 1])
    return np.unique(np.concatenate(parts))


def _cells(values: Values, steps: Floats) -> list[str]:
    found = [values.at(step) for step in steps.tolist()]
    return [
        values.write(value) if at == step else ""
        for (at, value), step in zip(found, steps.tolist(), strict=True)
    ]


def _times(plot: Plot, steps: Floats) -> list[float]:
    found = steps if plot.timed else places(steps, plot.clock, "clock")
    times: list[float] = found.tolist()
    return times


def _widths(heads: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(_NARROWEST, len(head), *map(len, cells))
        for head, cells in zip(heads, body, strict=True)
    ]


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many columns there is room for, the first always among them."""
    ends = np.cumsum([size + _GAP for size in widths])
    if ends[-1] <= width:
        return len(widths)
    return max(1, int(np.searchsorted(ends, width - 5, side="right")))


def _line(cells: Sequence[str], widths: Sequence[int], ink: str) -> Row:
    text = "".join(
        cell.rjust(size + _GAP) for cell, size in zip(cells, widths[: len(cells)], strict=True)
    )
    return [Span(text, ink)]
