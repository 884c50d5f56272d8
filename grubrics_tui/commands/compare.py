"""``grubrics-tui compare``: print runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import print_json, say

if TYPE_CHECKING:
    from engine.reports.compare import Comparison
    from engine.reports.differences import Difference
    from engine.reports.run_record import RunRecord


_WIDEST = 44


def compare(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...", help="Two to eight run IDs, unique prefixes or directories"
        ),
    ],
    equal_steps: Annotated[
        bool, typer.Option("--equal-steps", help="Compare at the last step all runs have reached")
    ] = False,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="Baseline for deltas (default: the first run)")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="Also print this metric per step; may be repeated"),
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare 2-8 runs: results, config and environment differences."""
    from engine.reports.compare import Comparer, at_equal_steps, check_choice
    from engine.reports.run_record import RunRecord

    root = runs_root(runs)
    chosen = [find_run(root, name) for name in run]
    check_choice(chosen)
    ids = [run_dir.id for run_dir in chosen]
    base_id = ids[0] if baseline is None else find_run(root, baseline).id
    if base_id not in ids:
        raise UsageError(f"baseline '{base_id}' is not among the compared runs")
    records = [RunRecord.read(run_dir) for run_dir in chosen]
    comparison = Comparer(records).compare(ids.index(base_id), equal_steps=equal_steps)
    if equal_steps and comparison.common is None:
        raise UsageError("the runs have no common step. Compare them without --equal-steps")
    curves = {name: at_equal_steps(records, name) for name in metric or ()}
    if as_json:
        print_json({**comparison.to_json(), "series": curves})
        return
    parts = (
        _notes(comparison),
        _summary(comparison),
        _no_effect(comparison),
        _differences(comparison),
        _curves(records, curves),
    )
    say("\n".join(line for part in parts for line in part))


def _notes(comparison: Comparison) -> Iterable[str]:
    """Yield why rewards or kinds of the runs cannot be compared, if so."""
    from engine.reports.same_rewards import format_kinds, format_reward_differences

    if comparison.reward_keys:
        yield f"WARNING: {format_reward_differences(comparison.reward_keys)}\n"
    if comparison.kinds:
        yield f"note: {format_kinds(comparison.kinds, comparison.shared)}\n"


def _summary(comparison: Comparison) -> Iterable[str]:
    from grubrics_tui.drawing.comparison import format_delta, format_value

    until = comparison.until
    ends = "each run at its last step" if until is None else f"up to step {until}"
    yield f"Results ({ends}; * best; deltas to {comparison.ids[comparison.baseline]})"
    rows = [["", *comparison.ids]]
    for row in comparison.summary:
        best, cells = row.best(), []
        for index, delta in enumerate(row.deltas(comparison.baseline)):
            parts = [format_value(row.values[index], row.unit) + (" *" if index in best else "")]
            if delta is not None and index != comparison.baseline:
                parts.append(format_delta(delta, row.unit))
            if (step := row.steps[index]) is not None:
                parts.append(f"at {step}")
            cells.append("  ".join(parts))
        rows.append([row.name, *cells])
    yield from _aligned(rows)


def _no_effect(comparison: Comparison) -> Iterable[str]:
    """Yield the findings of runs that differ in config and not in their metrics."""
    baseline = comparison.ids[comparison.baseline]
    for identical in comparison.no_effect:
        ids, finding = f"{baseline} and {identical.run}", identical.finding
        yield f"\n{str(finding.severity).upper()}: {ids}: {finding.title}  [{finding.id}]"
        yield f"  {finding.cause}"
        yield from (f"  advice: {remedy.title}" for remedy in finding.remedies)


def _differences(comparison: Comparison) -> Iterable[str]:
    from engine.reports.differences import SHELL

    relevant = [row for row in comparison.environment if row.section != SHELL]
    for title, group in (("config", comparison.config), ("environment", relevant)):
        if not group:
            yield f"\n{title}: no differences"
            continue
        yield f"\n{title}"
        rows = [[difference.name, *_cells(difference)] for difference in group]
        yield from _aligned([["", *comparison.ids], *rows])
    if hidden := len(comparison.environment) - len(relevant):
        count = f"{hidden} difference{'' if hidden == 1 else 's'}"
        yield f"\nshell: {count} without effect on training (see --json)"


def _cells(difference: Difference) -> Iterable[str]:
    from engine.reports.differences import short_text

    for cell in difference.cells:
        if cell is None:
            yield "–"
        else:
            text = short_text(cell.value)
            shown = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
            yield f"{shown}  ({cell.origin})" if cell.origin else shown


def _curves(records: Sequence[RunRecord], curves: dict[str, Any]) -> Iterable[str]:
    for name, curve in curves.items():
        yield f"\n{name}"
        rows = [["step", *(record.run.id for record in records)]]
        columns = [curve["values"][record.run.id] for record in records]
        for number, step in enumerate(curve["steps"]):
            values = [column[number] for column in columns]
            rows.append([str(step), *("–" if v is None else f"{v:.4g}" for v in values)])
        yield from _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


COMMAND = Command(compare, Task.INSPECT)
