"""A comparison of runs as a table: quantities and keys downwards, runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from engine.findings.finding import Severity
from engine.reports.compare import Comparison, NoEffect
from engine.reports.differences import SHELL, Cell, Difference, short_text
from engine.reports.measures import Measure, Value
from engine.reports.same_rewards import format_kinds, format_reward_differences
from grubrics_tui.drawing.chart_data import short
from grubrics_tui.drawing.looks import STATE_LOOKS, look_of
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.drawing.wrap import clipped
from grubrics_tui.text.formats import MISSING, duration, seconds

_NARROWEST, _WIDEST, _LABEL, _GAP = 13, 34, 30, 2


@dataclass(frozen=True)
class TableLine:
    """A row of the table: a heading, a measure or a difference; ``cells`` has one part a run."""

    label: str
    cells: tuple[tuple[Span, ...], ...] = ()
    source: Measure | Difference | None = None
    ink: str = "primary"

    @property
    def is_heading(self) -> bool:
        return self.source is None


@dataclass(frozen=True)
class Grid:
    """Widths of the columns, and which runs have one: ``first`` is the left one. Of values that are
    wider, the first ``shift`` cells are out of sight."""

    label: int
    column: int
    first: int
    shown: int
    shift: int = 0

    @classmethod
    def of(
        cls, lines: Sequence[TableLine], runs: int, width: int, first: int = 0, shift: int = 0
    ) -> Grid:
        """Columns as wide as their values or as fit; the runs from ``first`` where not all do."""
        longest = max((cell_len(line.label) for line in lines), default=0) + _GAP
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
    """Cells of the widest value that differs."""
    cells = (cell for one in lines if isinstance(one.source, Difference) for cell in one.cells)
    return max((sum(cell_len(part.text) for part in cell) for cell in cells), default=0)


def table_lines(
    comparison: Comparison, *, deltas: bool = False, shell: bool = False, star: str = "★"
) -> list[TableLine]:
    """Every row, whatever the width. With ``deltas`` numbers are what a run has more than the
    baseline; ``star`` marks the best. ``shell`` unfolds what cannot change training."""
    found = [_no_effect(one) for one in comparison.no_effect]
    if comparison.reward_keys:
        text = format_reward_differences(comparison.reward_keys)
        found.append(TableLine(f"! {text}", ink="warning"))
    if comparison.kinds:
        found.append(TableLine(format_kinds(comparison.kinds, comparison.shared), ink="accent"))
    found.append(TableLine("how they did"))
    for row in comparison.summary:
        cells = _deltas(row, comparison) if deltas else _values(row, comparison, star)
        found.append(TableLine(row.name, tuple(cells), row))
    found += _differences("config", comparison.config, comparison.baseline)
    of_shell = [one for one in comparison.environment if one.section == SHELL]
    others = [one for one in comparison.environment if one.section != SHELL]
    found += _differences("", others, comparison.baseline)
    if of_shell and shell:
        found += _differences("", of_shell, comparison.baseline)
    elif of_shell:
        count = f"{len(of_shell)} variable{'' if len(of_shell) == 1 else 's'}"
        found.append(TableLine(f"shell: {count} that cannot change training; v shows"))
    return found


def _no_effect(one: NoEffect) -> TableLine:
    ink = "error" if one.finding.severity is Severity.ERROR else "warning"
    return TableLine(f"! {one.run}: {one.finding.title}", ink=ink)


def head(names: Sequence[str], inks: Sequence[str], keys: Sequence[str], grid: Grid) -> Row:
    """The runs' names in their colors."""
    row: Row = [Span(" " * grid.label)]
    for place in grid.places:
        key = f"{keys[place]} "
        name = _middle(names[place], grid.column - _GAP - len(key))
        text = set_cell_size(f"{key}{name}", grid.column)
        row.append(Span(text, inks[place], bold=True))
    return row


def line(one: TableLine, grid: Grid, *, chosen: bool = False) -> Row:
    """A row in the columns that are shown; of a cell that does not fit, its first parts."""
    paper = "panel" if chosen else ""
    if one.is_heading:
        return [Span(one.label, one.ink, bold=True)]
    label = set_cell_size(clipped(one.label, grid.label - 1), grid.label)
    row: Row = [Span(label, "primary" if chosen else "quiet", paper)]
    for place in grid.places:
        parts = one.cells[place]
        if isinstance(one.source, Difference):
            parts = _shifted(parts, grid)
        row += _fitted(parts, grid.column, paper)
    return row


def told(value: Value, unit: str) -> str:
    """A measured value in words."""
    if value is None or isinstance(value, str):
        return value or MISSING
    if unit == "seconds":
        return seconds(value)
    if unit == "duration":
        return duration(value)
    return f"{value:,.0f}" if unit == "count" else short(value)


def told_delta(value: float, unit: str) -> str:
    """``+0.31``, ``-4:07``; ``±0`` where no difference would be shown."""
    size = told(abs(value), unit)
    return "±0" if size == told(0.0, unit) else ("+" if value > 0 else "-") + size


def _values(row: Measure, comparison: Comparison, star: str) -> Iterator[tuple[Span, ...]]:
    """Each value, how far it is from the baseline's, and the step it is from."""
    best, baseline = row.best(), comparison.baseline
    for place, delta in enumerate(row.deltas(baseline)):
        parts = [_cell_of(row, comparison, place, star if place in best else "")]
        if delta is not None and place != baseline:
            parts.append(Span(f"  {told_delta(delta, row.unit)}", _tone(row, delta)))
        if row.steps[place] is not None:
            parts.append(Span(f"  at {row.steps[place]}", "quiet"))
        yield tuple(parts)


def _deltas(row: Measure, comparison: Comparison) -> Iterator[tuple[Span, ...]]:
    baseline = comparison.baseline
    for place, delta in enumerate(row.deltas(baseline)):
        if place == baseline or row.unit == "text":
            yield (_cell_of(row, comparison, place, ""),)
        elif delta is None:
            yield (Span(MISSING, "quiet"),)
        else:
            yield (Span(told_delta(delta, row.unit), _tone(row, delta)),)


def _cell_of(row: Measure, comparison: Comparison, place: int, star: str) -> Span:
    value, health = row.values[place], comparison.health[place]
    if row.name == "state" and isinstance(value, str) and value in STATE_LOOKS:
        glyph, ink = look_of(value, health)
        return Span(f"{glyph} {value}", ink)
    if row.name == "health" and health is not None and health.finding is not None:
        return Span(str(value), "warning")
    return _value(value, row.unit, star)


def _value(value: Value, unit: str, star: str) -> Span:
    ink = "success" if star else "quiet" if value is None else "foreground"
    return Span(f"{told(value, unit)} {star}".rstrip(), ink, bold=bool(star))


def _tone(row: Measure, delta: float) -> str:
    if not delta or row.better is None:
        return "quiet"
    return "success" if (delta > 0) == (row.better == "high") else "error"


def _differences(group: str, found: Sequence[Difference], baseline: int) -> Iterator[TableLine]:
    if not found:
        yield TableLine(f"{group or 'what they ran on'}: the same")
    section = None
    for one in found:
        if one.section != section:
            section = one.section
            yield TableLine(" · ".join(filter(None, (group, section))))
        cells = tuple(_cell(cell, one.cells[baseline]) for cell in one.cells)
        yield TableLine(one.key, cells, one)


def _cell(cell: Cell | None, base: Cell | None) -> tuple[Span, ...]:
    """What is as in the baseline is quiet."""
    if cell is None:
        return (Span(MISSING, "quiet"),)
    same = base is not None and cell.value == base.value
    origin = (Span(f"  {cell.origin}", "quiet"),) if cell.origin else ()
    return (Span(short_text(cell.value), "quiet" if same else "foreground", bold=not same), *origin)


def _shifted(parts: tuple[Span, ...], grid: Grid) -> tuple[Span, ...]:
    """A value that is wider than its column, from where it is looked at; others stay."""
    text = "".join(part.text for part in parts)
    room = grid.column - _GAP
    if not grid.shift or cell_len(text) <= room:
        return parts
    start = min(grid.shift, len(text) - room)
    found, place = [Span("…", "quiet")], 0
    for part in parts:
        left = max(0, start + 1 - place)
        found.append(replace(part, text=part.text[left:]))
        place += len(part.text)
    return tuple(part for part in found if part.text)


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


def _middle(name: str, width: int) -> str:
    """Without its middle: names start alike and end with what tells them apart."""
    if cell_len(name) <= width:
        return name
    front = max(0, (width - 1) // 3)
    return f"{name[:front]}…{name[len(name) - max(0, width - 1 - front) :]}"
