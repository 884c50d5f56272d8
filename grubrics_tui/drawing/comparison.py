"""Draw a comparison of runs as a table: a row per measure or key, a column per run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from engine.base.quantities import MISSING, format_count
from engine.report.compare import Comparison
from engine.report.differences import (
    SHELL,
    Cell,
    Difference,
    format_kinds,
    format_reward_differences,
    short_text,
)
from engine.report.measures import Measure, Value, format_delta, format_half, format_value
from engine.run.finding import Severity
from grubrics_tui.drawing.looks import STATE_LOOKS, look_of
from grubrics_tui.drawing.spans import Row, Span, clipped, width_of
from grubrics_tui.text.terminal_text import cut_name

_NARROWEST, _WIDEST, _LABEL, _GAP = 13, 34, 30, 2
_CURSOR = "› "


@dataclass(frozen=True)
class TableLine:
    """A row of the table: a heading, a measure or a difference; ``cells`` has one cell for each
    group."""

    label: str
    cells: tuple[tuple[Span, ...], ...] = ()
    source: Measure | Difference | None = None
    ink: str = "primary"

    @property
    def is_heading(self) -> bool:
        return self.source is None


@dataclass(frozen=True)
class Grid:
    """Widths of the columns, and the runs that are shown, from ``first`` on.

    Of values that are wider than a column, the first ``shift`` cells are scrolled out. The labels
    include the cursor.
    """

    label: int
    column: int
    first: int
    shown: int
    shift: int = 0

    @classmethod
    def of(
        cls, lines: Sequence[TableLine], runs: int, width: int, first: int = 0, shift: int = 0
    ) -> Grid:
        """Make columns as wide as their values or as fit; show runs from ``first`` on."""
        labels = (cell_len(line.label) for line in lines if not line.is_heading)
        longest = len(_CURSOR) + max(labels, default=0) + _GAP
        widest = max(_WIDEST, widest_value(lines) + _GAP)
        label = min(longest, max(_LABEL, width - runs * widest), width // 2)
        column = min(widest, max(_NARROWEST, (width - label) // max(1, runs)))
        shown = min(runs, max(1, (width - label) // column))
        hidden = max(0, widest_value(lines) + _GAP - column)
        return cls(label, column, max(0, min(first, runs - shown)), shown, min(shift, hidden))

    @property
    def places(self) -> range:
        return range(self.first, self.first + self.shown)


def widest_value(lines: Sequence[TableLine]) -> int:
    """Return the cells of the widest value that differs."""
    cells = (cell for line in lines if isinstance(line.source, Difference) for cell in line.cells)
    return max((sum(cell_len(part.text) for part in cell) for cell in cells), default=0)


def table_lines(
    comparison: Comparison, *, deltas: bool = False, shell: bool = False, star: str = "★"
) -> list[TableLine]:
    """Return all rows. With ``deltas``, numbers are differences from the baseline.

    ``star`` marks a group that is better than all others; ``shell`` adds variables that cannot
    change training.
    """
    rows = []
    for same in comparison.no_effect:
        ink = "error" if same.finding.severity is Severity.ERROR else "warning"
        rows.append(TableLine(f"! {same.other} and {same.run}: {same.finding.title}", ink=ink))
    if comparison.reward_keys:
        text = format_reward_differences(comparison.reward_keys)
        rows.append(TableLine(f"! {text}", ink="warning"))
    if comparison.kinds:
        rows.append(TableLine(format_kinds(comparison.kinds, comparison.shared), ink="accent"))
    rows.append(TableLine("results"))
    for row in comparison.summary:
        cells = _deltas(row, comparison) if deltas else _values(row, comparison, star)
        rows.append(TableLine(row.name, tuple(cells), row))
    if comparison.config or not comparison.without_config:
        rows += _differences("config", comparison.config, comparison.baseline)
    if comparison.without_config:
        rows.append(TableLine(f"config not known of {', '.join(comparison.without_config)}"))
    variables = [item for item in comparison.environment if item.section == SHELL]
    environment = [item for item in comparison.environment if item.section != SHELL]
    rows += _differences("", environment, comparison.baseline)
    if variables and shell:
        rows += _differences("", variables, comparison.baseline)
    elif variables:
        count = format_count(len(variables), "variable")
        rows.append(TableLine(f"shell: {count} that cannot change training; v shows them"))
    return rows


def head(heads: Sequence[tuple[str, str]], keys: Sequence[str], grid: Grid) -> Row:
    """Draw the labels of the groups in their colors. ``heads``: label and color of each."""
    row: Row = [Span(" " * grid.label)]
    for index in grid.places:
        label, ink = heads[index]
        key = f"{keys[index]} "
        room = grid.column - _GAP - len(key)
        text = set_cell_size(f"{key}{cut_name(label, room)}", grid.column)
        row.append(Span(text, ink, bold=True))
    return row


def line(table_line: TableLine, grid: Grid, width: int, *, chosen: bool = False) -> Row:
    """Draw a row of ``width`` cells; of a cell that does not fit, the first parts."""
    paper = "line" if chosen else ""
    if table_line.is_heading:
        return [Span(clipped(table_line.label, width), table_line.ink, bold=True)]
    room = grid.label - len(_CURSOR)
    label = set_cell_size(clipped(table_line.label, room - 1), room)
    row: Row = [
        Span(_CURSOR if chosen else " " * len(_CURSOR), "primary", paper, bold=True),
        Span(label, "primary" if chosen else "quiet", paper, bold=chosen),
    ]
    for index in grid.places:
        parts = table_line.cells[index]
        if isinstance(table_line.source, Difference):
            parts = _shifted(parts, grid)
        row += _fitted(parts, grid.column, paper)
    return row


def _values(row: Measure, comparison: Comparison, star: str) -> Iterator[tuple[Span, ...]]:
    """Yield cells of the value, half its interval, the difference from the baseline, and the
    step."""
    best, baseline = row.best(), comparison.baseline
    verdicts = row.verdicts(baseline)
    for index, (entry, delta) in enumerate(zip(row.entries, row.deltas(baseline), strict=True)):
        parts = [_cell_of(row, comparison, index, star if index == best else "")]
        parts.append(Span(format_half(entry.estimate, row.unit), "quiet"))
        if delta is not None and index != baseline:
            parts.append(Span(f"  {format_delta(delta, row.unit)}", _tone(verdicts[index])))
        if entry.step is not None:
            parts.append(Span(f"  at {entry.step}", "quiet"))
        yield tuple(parts)


def _deltas(row: Measure, comparison: Comparison) -> Iterator[tuple[Span, ...]]:
    """Yield cells of the difference from the baseline, with its interval."""
    baseline = comparison.baseline
    verdicts = row.verdicts(baseline)
    for index, difference in enumerate(row.comparisons(baseline)):
        if index == baseline or row.unit == "text":
            yield (_cell_of(row, comparison, index, ""),)
        elif difference is None:
            yield (Span(MISSING, "quiet"),)
        else:
            estimate = difference.difference
            delta = Span(format_delta(estimate.mean, row.unit), _tone(verdicts[index]))
            yield delta, Span(format_half(estimate, row.unit), "quiet")


def _cell_of(row: Measure, comparison: Comparison, index: int, star: str) -> Span:
    value, health = row.values[index], comparison.health_of(index)
    if row.name == "state" and isinstance(value, str) and value in STATE_LOOKS:
        glyph, ink = look_of(value, health)
        return Span(f"{glyph} {value}", ink)
    if row.name == "health" and health is not None and health.finding is not None:
        return Span(str(value), "warning")
    return _value(value, row.unit, star)


def _value(value: Value, unit: str, star: str) -> Span:
    ink = "success" if star else "quiet" if value is None else "foreground"
    return Span(f"{format_value(value, unit)} {star}".rstrip(), ink, bold=bool(star))


def _tone(is_better: bool | None) -> str:
    """The color of a difference; quiet if it may be chance."""
    return "quiet" if is_better is None else "success" if is_better else "error"


def _differences(
    group: str, differences: Sequence[Difference], baseline: int
) -> Iterator[TableLine]:
    if not differences:
        yield TableLine(f"{group or 'environment'}: no differences")
    section = None
    for difference in differences:
        if difference.section != section:
            section = difference.section
            yield TableLine(" · ".join(filter(None, (group, section))))
        cells = tuple(_cell(cell, difference.cells[baseline]) for cell in difference.cells)
        yield TableLine(difference.key, cells, difference)


def _cell(cell: Cell | None, base: Cell | None) -> tuple[Span, ...]:
    """Return the parts of a cell, quiet if the value is that of the baseline."""
    if cell is None:
        return (Span(MISSING, "quiet"),)
    same = base is not None and cell.value == base.value
    origin = (Span(f"  {cell.origin}", "quiet"),) if cell.origin else ()
    return (Span(short_text(cell.value), "quiet" if same else "foreground", bold=not same), *origin)


def _shifted(parts: tuple[Span, ...], grid: Grid) -> tuple[Span, ...]:
    """Scroll a value that is wider than its column; others stay."""
    text = "".join(part.text for part in parts)
    room = grid.column - _GAP
    if not grid.shift or cell_len(text) <= room:
        return parts
    start = min(grid.shift, len(text) - room)
    shifted, position = [Span("…", "quiet")], 0
    for part in parts:
        dropped = max(0, start + 1 - position)
        shifted.append(replace(part, text=part.text[dropped:]))
        position += len(part.text)
    return tuple(part for part in shifted if part.text)


def _fitted(parts: Sequence[Span], width: int, paper: str) -> Row:
    room, row = width - _GAP, Row()
    for number, part in enumerate(parts):
        size = cell_len(part.text)
        if number and size > room:
            break
        text = clipped(part.text, room)
        row.append(Span(text, part.ink, paper, part.bold))
        room -= cell_len(text)
    return [*row, Span(" " * (width - width_of(row)), "", paper)]
