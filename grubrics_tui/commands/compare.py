"""``grubrics-tui compare``: print runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_number
from engine.base.tables import aligned_lines
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, on_terminal, options, print_json, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.output import terminal_width
from grubrics_tui.commands.shared.sources import open_comparison, open_sources
from grubrics_tui.commands.shared.standard_input import standard_input_read

if TYPE_CHECKING:
    from engine.report.compare import Comparison
    from engine.report.differences import Difference
    from engine.report.groups import Group
    from engine.report.measures import Measure


_WIDEST = 44


def compare(
    run: Annotated[
        list[str] | None,
        argument(
            "RUN RUN...",
            "Run IDs, unique prefixes or directories, or files or folders of other trainers; "
            "- for stdin",
            autocompletion=complete_run,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        option("NAME=RUN,RUN", "Runs that form one column; for several, repeat it"),
    ] = None,
    each: Annotated[
        bool, flag("One column for each run, also if only their seeds differ", "--each")
    ] = False,
    equal_steps: Annotated[
        bool, flag("Compare at the last step all runs have reached", "--equal-steps")
    ] = False,
    baseline: Annotated[
        str | None, option("RUN", "Run or group that deltas are to (default: the first)")
    ] = None,
    metric: Annotated[
        list[str] | None, option("METRIC", "Also print this metric per step; may be repeated")
    ] = None,
    screen: Annotated[bool, flag("Open the charts and tables on the screen", "--screen")] = False,
    as_format: options.FormatOption = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare runs: results, config and environment differences.

    Runs that differ only in their seeds are one column, with intervals over the seeds.
    """
    from engine.report.compare import Comparer, at_equal_steps, check_choice, check_groups
    from engine.report.groups import find_groups, group_by_name, group_each
    from engine.report.run_record import RunRecord, distinct_ids

    root = runs_root(runs)
    grouped = _read_groups(group or ())
    with standard_input_read([*(run or ()), *grouped]) as names:
        chosen = open_sources(root, names, as_format)
    ids = distinct_ids(chosen)
    check_choice(ids)
    group_names = dict(zip(ids[len(run or ()) :], grouped.values(), strict=True))
    grouping = group_by_name(group_names) if group_names else group_each if each else find_groups
    if screen and not on_terminal():
        raise UsageError("--screen needs a terminal. Without it, the comparison is printed")
    if screen:
        open_comparison(root, chosen, grouping)
        return
    records = [RunRecord.read(run_dir, id) for run_dir, id in zip(chosen, ids, strict=True)]
    comparer = Comparer(records, grouping)
    check_groups(comparer.groups)
    base = 0 if baseline is None else _find_baseline(baseline, comparer.groups, ids)
    comparison = comparer.compare(base, equal_steps=equal_steps)
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
        _curves(comparison, curves),
    )
    say("\n".join(line for part in parts for line in part))


def _read_groups(groups: Sequence[str]) -> dict[str, str]:
    """The group of each run that an option ``--group NAME=RUN,RUN`` names."""
    grouped: dict[str, str] = {}
    for text in groups:
        name, equals, members = text.partition("=")
        runs = [member for member in members.split(",") if member]
        if not (name and equals and runs):
            raise UsageError(f"--group {text}: expected NAME=RUN,RUN")
        for member in runs:
            if member in grouped:
                raise UsageError(f"--group {text}: run '{member}' is already in {grouped[member]}")
            grouped[member] = name
    return grouped


def _find_baseline(name: str, groups: Sequence[Group], ids: Sequence[str]) -> int:
    """The group of that name, or with a run whose ID begins so."""
    named = [index for index, group in enumerate(groups) if group.name == name]
    members = [
        index
        for index, group in enumerate(groups)
        if any(ids[member] == name for member in group.members)
        or any(ids[member].startswith(name) for member in group.members)
    ]
    if not named and len(members) != 1:
        problem = "is not among the compared runs" if not members else "is ambiguous"
        raise UsageError(f"baseline '{name}' {problem}: {', '.join(g.name for g in groups)}")
    return (named or members)[0]


def _notes(comparison: Comparison) -> Iterable[str]:
    """Yield why rewards or kinds of the runs cannot be compared, if so."""
    from engine.report.differences import format_kinds, format_reward_differences

    if comparison.reward_keys:
        yield f"WARNING: {format_reward_differences(comparison.reward_keys)}\n"
    if comparison.kinds:
        yield f"note: {format_kinds(comparison.kinds, comparison.shared)}\n"


def _summary(comparison: Comparison) -> Iterable[str]:
    until = comparison.until
    ends = "each run at its last step" if until is None else f"up to step {until}"
    baseline = comparison.names[comparison.baseline]
    yield f"Results ({ends}; deltas to {baseline} in parentheses)"
    rows = [["", *comparison.names]]
    rows += [[row.name, *_results(row, comparison.baseline)] for row in comparison.summary]
    yield from aligned_lines(rows, indent="  ")
    yield (
        "  ± half of the 95% interval over the seeds; * better than all others at 95%"
        if comparison.has_intervals
        else "  one run each: differences may be chance; the same with other seeds would show it"
    )


def _results(row: Measure, baseline: int) -> Iterator[str]:
    """Yield the cells of a measure; the best one has a star."""
    from engine.report.measures import result_parts

    best = row.best()
    for index, (value, *others) in enumerate(result_parts(row, baseline)):
        yield "  ".join([f"{value} *" if index == best else value, *others])


def _no_effect(comparison: Comparison) -> Iterable[str]:
    """Yield the findings of runs that differ in config and not in their metrics."""
    for identical in comparison.no_effect:
        ids, finding = f"{identical.other} and {identical.run}", identical.finding
        yield f"\n{str(finding.severity).upper()}: {ids}: {finding.title}  [{finding.id}]"
        yield f"  {finding.cause}"
        yield from (f"  advice: {fix.title}" for fix in finding.fixes)


def _differences(comparison: Comparison) -> Iterable[str]:
    from engine.report.differences import SHELL

    relevant = [row for row in comparison.environment if row.section != SHELL]
    for title, group in (("config", comparison.config), ("environment", relevant)):
        if not group:
            unknown = ", ".join(comparison.without_config) if title == "config" else ""
            yield f"\n{title}: " + (f"not known of {unknown}" if unknown else "no differences")
            continue
        yield f"\n{title}"
        rows = [[difference.name, *_cells(difference)] for difference in group]
        yield from aligned_lines([["", *comparison.names], *rows], indent="  ")
    if hidden := len(comparison.environment) - len(relevant):
        count = format_count(hidden, "difference")
        yield f"\nshell: {count} without effect on training (see --json)"


def _cells(difference: Difference) -> Iterable[str]:
    from engine.report.differences import short_text

    for cell in difference.cells:
        if cell is None:
            yield "–"
        else:
            shown = text = short_text(cell.value)
            if len(text) > _WIDEST and terminal_width() is not None:
                shown = f"{text[: _WIDEST - 1]}…"
            yield f"{shown}  ({cell.origin})" if cell.origin else shown


def _curves(comparison: Comparison, curves: dict[str, Any]) -> Iterable[str]:
    for name, curve in curves.items():
        yield f"\n{name}"
        rows = [["step", *comparison.ids]]
        columns = [curve["values"][run] for run in comparison.ids]
        for number, step in enumerate(curve["steps"]):
            values = [column[number] for column in columns]
            rows.append([str(step), *map(format_number, values)])
        yield from aligned_lines(rows, indent="  ")


COMMAND = Command(compare, Task.MEASURE)
