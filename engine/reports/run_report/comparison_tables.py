"""The comparison of the runs of a report: legend, results, differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.base.text import MISSING, format_config_value
from engine.reports.compare import Comparison
from engine.reports.differences import SHELL, Difference, short_text
from engine.reports.measure_text import format_delta, format_half, format_value
from engine.reports.measures import Measure
from engine.reports.run_record import RunRecord
from engine.reports.run_report.publish import published_value
from engine.reports.run_report.report import Legend, Section, Table
from engine.reports.same_rewards import format_kinds, format_reward_differences
from engine.runs.manifest import changed_values

_LETTERS = "ABCDEFGH"


def make_legend(comparison: Comparison) -> tuple[Legend, ...]:
    """A letter and a color for each group; no letter if there is only one."""
    groups, ids = comparison.groups, comparison.ids
    return tuple(
        Legend(
            _LETTERS[index] if len(groups) > 1 else "",
            index + 1,
            group.name,
            tuple(ids[member] for member in group.members),
            group.label if len(group.members) > 1 else "",
        )
        for index, group in enumerate(groups)
    )


def column_names(legend: Sequence[Legend]) -> tuple[str, ...]:
    return tuple(f"{entry.key} {entry.name}".strip() for entry in legend)


def describe_results(comparison: Comparison) -> tuple[str, ...]:
    """How to read the results, and why some of them cannot be compared."""
    if len(comparison.groups) == 1 and not comparison.has_intervals:
        return ()
    sentences = ["Each run at its last step."]
    if len(comparison.groups) > 1:
        sentences.append(f"Differences in parentheses are to {comparison.names[0]}.")
    if comparison.has_intervals:
        sentences.append("± is half of the 95% interval over the seeds.")
    else:
        sentences.append("One run each: differences may be chance.")
    remarks = (
        format_reward_differences(comparison.reward_keys),
        format_kinds(comparison.kinds, comparison.shared),
        *(f"{n.other} and {n.run}: {n.finding.title}" for n in comparison.no_effect),
    )
    return (" ".join(sentences), *(f"Note: {remark}" for remark in remarks if remark))


def results_table(comparison: Comparison, legend: Sequence[Legend]) -> Table:
    rows = tuple((row.name, *_result_cells(row)) for row in comparison.summary)
    return Table(("", *column_names(legend)), rows)


def _result_cells(row: Measure) -> Iterator[str]:
    """Value with half its interval, difference from the first column, and step."""
    for index, (entry, other) in enumerate(zip(row.entries, row.comparisons(0), strict=True)):
        parts = [format_value(entry.value, row.unit) + format_half(entry.estimate, row.unit)]
        if other is not None and index:
            estimate = other.difference
            delta = format_delta(estimate.mean, row.unit) + format_half(estimate, row.unit)
            parts.append(f"({delta})")
        if entry.step is not None:
            parts.append(f"at {entry.step:,}")
        yield " ".join(parts)


def config_section(
    comparison: Comparison, legend: Sequence[Legend], records: Sequence[RunRecord]
) -> Section:
    """The keys that differ between the groups; of one group, those that differ from the file of its
    first run."""
    if len(comparison.groups) > 1:
        rows = tuple(map(_difference_row, comparison.config))
        unknown = ", ".join(comparison.without_config)
        lead = (f"Not known of {unknown}.",) if unknown else () if rows else ("No key differs.",)
        blocks = (Table(("key", *column_names(legend)), rows),) if rows else ()
        return Section("config", "Config differences", blocks, lead)
    record = records[0]
    rows = tuple(
        (
            change["key"],
            *(format_config_value(change[side]) for side in ("before", "after")),
            str(change["origin"]),
        )
        for change in changed_values(record.manifest)
    )
    blocks = (Table(("key", "in the file", "in the run", "set by"), rows),) if rows else ()
    lead = () if rows else ("Nothing was set over the config file.",)
    if rows and len(records) > 1:
        lead = (f"Those of {record.id}; the runs differ in their seeds.",)
    return Section("config", "Overrides", blocks, lead)


def environment_differences_table(comparison: Comparison, legend: Sequence[Legend]) -> Table | None:
    """What the runs ran on that differs and can change the training; None if nothing does."""
    relevant = [row for row in comparison.environment if row.section != SHELL]
    if not relevant:
        return None
    rows = tuple(map(_difference_row, relevant))
    return Table(("", *column_names(legend)), rows, title="What differs")


def _difference_row(difference: Difference) -> tuple[str, ...]:
    cells = (
        MISSING if cell is None else short_text(published_value(difference.key, cell.value))
        for cell in difference.cells
    )
    return (difference.name, *cells)
