"""The arms of an ablation as a table: numbers, intervals around zero, runs, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from grubrics_tui.drawing.spans import Row, Span, clipped, width_of
from grubrics_tui.text.plans import arm_cells

if TYPE_CHECKING:
    from engine.base.intervals import Estimate
    from engine.measure.ablations.report import AblationReport
    from engine.measure.ablations.table import ArmRow

WIDE = 100
"""Cells from which the table has intervals, their picture and the health of the runs."""
_GAP = "  "
_LONGEST_NAME = 26
_NARROWEST_BAR, _WIDEST_BAR = 11, 41
_SHOWN_MEANS = 2.5
"""The picture reaches so many times the largest difference: intervals of two seeds are far wider
and would shrink all others to a point."""
_VERDICT_INKS = {"better": "success", "worse": "error"}

Order = Literal["plan", "difference", "mean"]
ORDERS: tuple[Order, ...] = ("plan", "difference", "mean")


def sort_rows(report: AblationReport, order: Order) -> list[ArmRow]:
    """The rows with the best first, as ``difference`` or ``mean`` says; else in the plan's order.
    Arms without the number come last."""
    rows = list(report.rows)
    if order == "plan":
        return rows
    sign = 1 if report.lower_is_better else -1

    def key(row: ArmRow) -> tuple[bool, float]:
        mean = row.mean.mean if row.mean else None
        value = _difference(row, report.baseline) if order == "difference" else mean
        return value is None, sign * (value or 0.0)

    return sorted(rows, key=key)


def has_failed(row: ArmRow) -> bool:
    """Whether every run that ended has failed."""
    ended = [run.state for run in row.runs if run.state is not None and run.state.has_ended]
    return bool(ended) and not any(state.went_well for state in ended)


def draw_arms(
    rows: Sequence[ArmRow], selected: int, width: int, problems: Mapping[str, str]
) -> list[Row]:
    """A heading and one row per arm. ``problems``: by run, what the doctor found."""
    heads, *texts = _without_empty([_heads(width), *(_cells(r, width, problems) for r in rows)])
    sizes = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    room = width - sum(sizes) - len(_GAP) * len(sizes) - 2
    bar = min(_WIDEST_BAR, room) if width >= WIDE and room >= _NARROWEST_BAR else 0
    limit = _limit(rows)
    lines = [[Span("  "), *_line(heads, sizes, "quiet"), *_scale(limit, bar)]]
    for index, (row, cells) in enumerate(zip(rows, texts, strict=True)):
        cursor = Span("› " if index == selected else "  ", "primary", bold=True)
        ink = _VERDICT_INKS.get(row.verdict or "", "")
        line = [cursor, *_line(cells, sizes, "", last=ink)]
        lines.append([*line, *_interval(row, limit, bar)])
    return [_cut(line, width) for line in lines]


def _heads(width: int) -> tuple[str, ...]:
    if width < WIDE:
        return ("arm", "mean", "difference", "runs", "verdict")
    return ("arm", "mean", "difference", "95% interval", "runs", "health", "verdict")


def _cells(row: ArmRow, width: int, problems: Mapping[str, str]) -> tuple[str, ...]:
    name, mean, difference, interval, runs, verdict = arm_cells(row)
    name = clipped(name, _LONGEST_NAME)
    if width < WIDE:
        estimate = row.comparison.difference if row.comparison else None
        return name, mean, _plus_minus(estimate), runs, verdict
    # How many runs of the arm are unhealthy.
    unhealthy = sum(bool(problems.get(run.run)) for run in row.runs)
    health = f"{unhealthy} unhealthy" if unhealthy else ""
    return name, mean, difference, interval, runs, health, verdict


def _without_empty(table: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The table without columns that have only a heading."""
    columns = [column for column in zip(*table, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


def _plus_minus(estimate: Estimate | None) -> str:
    """A difference and half the width of its interval."""
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:+.3f}"
    return f"{estimate.mean:+.3f} ±{(estimate.high - estimate.low) / 2:.3f}"


def _line(
    cells: Sequence[str], sizes: Sequence[int], ink: str, *, last: str = ""
) -> Iterator[Span]:
    for index, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        is_last = index == len(cells) - 1
        yield Span(cell.ljust(size) + _GAP, last if is_last and last else ink, bold=index == 0)


def _limit(rows: Sequence[ArmRow]) -> float:
    """The difference at the ends of the picture; 0 where there is nothing to draw."""
    estimates = [row.comparison.difference for row in rows if row.comparison]
    means = max((abs(estimate.mean) for estimate in estimates), default=0.0)
    reach = [
        max(abs(estimate.low), abs(estimate.high))
        for estimate in estimates
        if estimate.low is not None and estimate.high is not None
    ]
    widest = max(reach, default=means)
    return min(widest, means * _SHOWN_MEANS) if means else widest


def _scale(limit: float, width: int) -> Row:
    """The ends of the picture and its zero."""
    if not width or not limit:
        return []
    ends = (f"{-limit:+.2g}", f"{limit:+.2g}")
    middle = width - len(ends[0]) - len(ends[1])
    return [Span(f"{ends[0]}{'0'.center(middle)}{ends[1]}", "quiet")] if middle >= 3 else []


def _interval(row: ArmRow, limit: float, width: int) -> Row:
    """Draw an interval on a line with zero in the middle; an arrow marks an end beyond the line."""
    if not width or not limit or row.comparison is None:
        return []
    estimate = row.comparison.difference
    cells = [" "] * width
    if estimate.low is not None and estimate.high is not None:
        low, high = _place(estimate.low, limit, width), _place(estimate.high, limit, width)
        for index in range(max(0, low), min(width - 1, high) + 1):
            cells[index] = "─"
        if low < 0:
            cells[0] = "◀"
        if high >= width:
            cells[-1] = "▶"
    cells[width // 2] = "│"
    cells[min(width - 1, max(0, _place(estimate.mean, limit, width)))] = "●"
    return [Span("".join(cells), _VERDICT_INKS.get(row.verdict or "", "quiet"))]


def _place(value: float, limit: float, width: int) -> int:
    return round((value / limit + 1) / 2 * (width - 1))


def _difference(row: ArmRow, baseline: str) -> float | None:
    if row.name == baseline:
        return 0.0
    return row.comparison.difference.mean if row.comparison else None


def _cut(row: Row, width: int) -> Row:
    """Cut the row to ``width`` cells."""
    while row and width_of(row) > width:
        *row, last = row
        room = width - width_of(row)
        if room > 0:
            return [*row, Span(last.text[:room], last.ink, last.paper, last.bold)]
    return row
