"""``grubrics-tui compare``: print runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
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
        list[str], typer.Argument(metavar="RUN RUN...", help="Two to eight ids, or starts of them")
    ],
    equal_steps: Annotated[
        bool, typer.Option("--equal-steps", help="Compare at the last step that all of them have")
    ] = False,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="Deltas are to this run [default: the first]")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Print this metric step by step as well")
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show runs side by side: how they did, and what differs in config and environment."""
    from engine.reports.compare import Comparer, at_equal_steps, check_choice
    from engine.reports.run_record import RunRecord

    root = runs_root(runs)
    chosen = [find_run(root, name) for name in run]
    check_choice(chosen)
    base = _place(root_run=None if baseline is None else find_run(root, baseline), among=chosen)
    records = [RunRecord.read(one) for one in chosen]
    found = Comparer(records).compare(base, equal_steps=equal_steps)
    if equal_steps and found.common is None:
        raise UsageError("the runs have no step in common; compare them without --equal-steps")
    curves = {name: at_equal_steps(records, name) for name in metric or ()}
    if as_json:
        print_json({**found.to_json(), "series": curves})
        return
    parts = (
        _scale(found),
        _kinds(found),
        _summary(found),
        _no_effect(found),
        _differences(found),
        _curves(records, curves),
    )
    say("\n".join(line for part in parts for line in part))


def _place(root_run: RunDir | None, among: Sequence[RunDir]) -> int:
    ids = [run.id for run in among]
    if root_run is None:
        return 0
    if root_run.id not in ids:
        raise UsageError(f"baseline '{root_run.id}' is not among the compared runs")
    return ids.index(root_run.id)


def _scale(found: Comparison) -> Iterable[str]:
    from engine.reports.reward_scale import told

    if found.reward_keys:
        yield f"WARNING: {told(found.reward_keys)}\n"


def _kinds(found: Comparison) -> Iterable[str]:
    from engine.reports.kinds import told

    if found.kinds:
        yield f"note: {told(found.kinds, found.shared)}\n"


def _summary(found: Comparison) -> Iterable[str]:
    from grubrics_tui.drawing.comparison import told, told_delta

    ends = "each run to its own end" if found.until is None else f"up to step {found.until}"
    rows = [["", *found.ids]]
    for row in found.summary:
        best, cells = row.best(), []
        for place, delta in enumerate(row.deltas(found.baseline)):
            step = row.steps[place]
            parts = [
                told(row.values[place], row.unit) + (" *" if place in best else ""),
                "" if delta is None or place == found.baseline else told_delta(delta, row.unit),
                "" if step is None else f"at {step}",
            ]
            cells.append("  ".join(filter(None, parts)))
        rows.append([row.name, *cells])
    told_base = f"deltas to {found.ids[found.baseline]}"
    return [f"how they did ({ends}; * best; {told_base})", *_aligned(rows)]


def _no_effect(found: Comparison) -> Iterable[str]:
    """An ablation that changed nothing."""
    for same in found.no_effect:
        ids, one = f"{found.ids[found.baseline]} and {same.run}", same.finding
        yield f"\n{str(one.severity).upper()}: {ids}: {one.title}  [{one.id}]"
        yield f"  {one.cause}"
        yield from (f"  try: {cure.title}" for cure in one.remedies)


def _differences(found: Comparison) -> Iterable[str]:
    from engine.reports.differences import SHELL

    ran_on = [one for one in found.environment if one.section != SHELL]
    for title, group in (("config", found.config), ("environment", ran_on)):
        if not group:
            yield f"\n{title}: the same"
            continue
        yield f"\n{title}"
        names = [one.name for one in group]
        yield from _aligned(
            [["", *found.ids], *([n, *_cells(one)] for n, one in zip(names, group, strict=True))]
        )
    if folded := len(found.environment) - len(ran_on):
        count = f"{folded} difference{'' if folded == 1 else 's'}"
        yield f"\nshell: {count} that cannot change training; --json has them"


def _cells(one: Difference) -> Iterable[str]:
    from engine.reports.differences import short_text

    for cell in one.cells:
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
