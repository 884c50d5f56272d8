"""Compare runs: results, and differences of config and environment. Runs that differ only in their
seeds are one column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.doctor.health import Health
from engine.doctor.metrics.ablation import ablation_findings
from engine.logs.formats.series import unknown_metric
from engine.report.differences import (
    Difference,
    config_differences,
    differences_of_groups,
    different_kinds,
    environment_differences,
    reward_differences,
    shared_metrics,
    trained_values,
)
from engine.report.groups import Group, Grouping, find_groups
from engine.report.measures import Cell, Measure, measure_run, measures
from engine.report.run_record import RunRecord, common_step
from engine.run.finding import Finding
from engine.run.history.metrics import canonical
from engine.run.manifest import FullManifest

MOST_GROUPS = 8
"""As many as there are colors."""
MOST_RUNS = 64


@dataclass(frozen=True)
class NoEffect:
    """A run that should differ from another one but does not, with the finding that shows it."""

    run: str
    other: str
    finding: Finding

    def to_json(self) -> dict[str, object]:
        finding = self.finding
        return {
            "run": self.run,
            "other": self.other,
            "id": finding.id,
            "severity": str(finding.severity),
            "title": finding.title,
            "cause": finding.cause,
            "fixes": [fix.title for fix in finding.fixes],
        }


@dataclass(frozen=True)
class Comparison:
    """Deltas are relative to the group with index ``baseline``. All runs are compared at the step
    ``until``; None: each at its own end. Rows have one entry for each group."""

    ids: tuple[str, ...]
    groups: tuple[Group, ...]
    baseline: int
    common: int | None
    until: int | None
    summary: tuple[Measure, ...]
    config: tuple[Difference, ...]
    environment: tuple[Difference, ...]
    no_effect: tuple[NoEffect, ...] = ()
    reward_keys: tuple[str, ...] = ()
    """The keys and files that put the runs' rewards on different scales."""
    kinds: tuple[str, ...] = ()
    """The kinds of the runs, if they differ."""
    shared: tuple[str, ...] = ()
    """The metrics that every run has logged."""
    health: tuple[Health | None, ...] = ()
    """The health of each run; None for one that has not finished."""
    without_config: tuple[str, ...] = ()
    """The runs whose configuration is unknown."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups; a run alone goes by its ID."""
        return tuple(group.name for group in self.groups)

    @property
    def has_intervals(self) -> bool:
        """Whether a group has several runs."""
        return any(len(group.members) > 1 for group in self.groups)

    def health_of(self, group: int) -> Health | None:
        """The health of a group: of its first run with a finding, or of its first run."""
        members = [self.health[index] for index in self.groups[group].members]
        return next((h for h in members if h is not None and h.finding is not None), members[0])

    def to_json(self) -> dict[str, object]:
        names = self.names
        return {
            "runs": list(self.ids),
            "groups": [group.to_json(self.ids) for group in self.groups],
            "baseline": names[self.baseline],
            "common_step": self.common,
            "compared_at": self.until,
            "summary": [row.to_json(names, self.baseline) for row in self.summary],
            "config": [self._difference(row) for row in self.config],
            "environment": [self._difference(row) for row in self.environment],
            "no_effect": [entry.to_json() for entry in self.no_effect],
            "reward_scale": list(self.reward_keys),
            "different_kinds": list(self.kinds),
            "shared_metrics": list(self.shared),
            "without_config": list(self.without_config),
            "health": {
                run: None if health is None else health.to_json()
                for run, health in zip(self.ids, self.health, strict=True)
            },
        }

    def _difference(self, row: Difference) -> dict[str, object]:
        cells = [None if cell is None else cell.to_json() for cell in row.cells]
        values = dict(zip(self.names, cells, strict=True))
        return {"section": row.section, "key": row.key, "values": values}


def check_choice(names: Sequence[str]) -> None:
    """UsageError unless these are the names of at least two different runs."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"run '{twice}' is named twice; a comparison needs different runs")
    if not 2 <= len(names) <= MOST_RUNS:
        chosen = format_count(len(names), "run")
        raise UsageError(f"{chosen} chosen; a comparison takes 2 to {MOST_RUNS}")


def check_groups(groups: Sequence[Group]) -> None:
    """UsageError if there are more groups than colors."""
    if len(groups) > MOST_GROUPS:
        raise UsageError(
            f"{len(groups)} columns; a comparison has at most {MOST_GROUPS}. "
            "Only runs that differ in nothing but their seeds share one"
        )


class Comparer:
    """Compares the same runs repeatedly, and computes only what has changed."""

    def __init__(self, records: Sequence[RunRecord], grouping: Grouping = find_groups) -> None:
        self.grouping = grouping
        self._records = records
        self._ids = tuple(record.id for record in records)
        self._cells: dict[str, tuple[object, tuple[Cell, ...]]] = {}
        self._facts: tuple[object, _Facts | None] = (None, None)
        self._no_effect: tuple[object, tuple[NoEffect, ...]] = (None, ())

    @property
    def groups(self) -> tuple[Group, ...]:
        return self._read_facts().groups

    def compare(self, baseline: int = 0, *, equal_steps: bool = False) -> Comparison:
        """Compare the groups; with ``equal_steps`` up to the last step that all runs have."""
        facts = self._read_facts()
        common = common_step(self._records)
        until = common if equal_steps else None
        cells = [self._measure(record, until) for record in self._records]
        baseline = min(baseline, len(facts.groups) - 1)
        return Comparison(
            self._ids,
            facts.groups,
            baseline,
            common,
            until,
            tuple(measures(cells, facts.groups, same_scale=not facts.reward_keys)),
            facts.config,
            facts.environment,
            self._without_effect(facts.groups, baseline),
            facts.reward_keys,
            facts.kinds,
            shared_metrics(record.columns.names for record in self._records),
            tuple(record.health for record in self._records),
            tuple(
                record.id
                for record in self._records
                if not record.manifest.config and not record.manifest.command
            ),
        )

    def _read_facts(self) -> _Facts:
        manifests = [record.manifest for record in self._records]
        facts = self._facts[1]
        if facts is None or (manifests, self.grouping) != self._facts[0]:
            facts = _read_facts(self.grouping(self._ids, manifests), manifests)
            self._facts = ((manifests, self.grouping), facts)
        return facts

    def _measure(self, record: RunRecord, until: int | None) -> tuple[Cell, ...]:
        version = (record.version, until)
        cached = self._cells.get(record.id)
        if cached is None or cached[0] != version:
            cached = self._cells[record.id] = (version, measure_run(record, until))
        return cached[1]

    def _without_effect(self, groups: Sequence[Group], baseline: int) -> tuple[NoEffect, ...]:
        version = (groups, baseline, *(record.version for record in self._records))
        if self._no_effect[0] != version:
            pairs = list(_pairs(groups, baseline))
            self._no_effect = (version, tuple(filter(None, map(self._look_for_effect, pairs))))
        return self._no_effect[1]

    def _look_for_effect(self, pair: tuple[int, int]) -> NoEffect | None:
        base, other = (self._records[index] for index in pair)
        values = trained_values([base.manifest, other.manifest])
        findings = ablation_findings(base.columns, other.columns, *values)
        return NoEffect(other.id, base.id, findings[0]) if findings else None


@dataclass(frozen=True)
class _Facts:
    """What follows from the manifests alone."""

    groups: tuple[Group, ...]
    config: tuple[Difference, ...]
    environment: tuple[Difference, ...]
    reward_keys: tuple[str, ...]
    kinds: tuple[str, ...]


def _read_facts(groups: tuple[Group, ...], manifests: Sequence[FullManifest]) -> _Facts:
    members = [group.members for group in groups]
    return _Facts(
        groups,
        differences_of_groups(config_differences(manifests), members),
        differences_of_groups(environment_differences(manifests), members),
        reward_differences(manifests),
        different_kinds(manifests),
    )


def _pairs(groups: Sequence[Group], baseline: int) -> Iterator[tuple[int, int]]:
    """Yield the runs that should differ from the baseline's first run: its other seeds, and of each
    other group the run with the same seed."""
    base = groups[baseline]
    first, seed = base.members[0], base.seeds[0]
    for group in groups:
        others = [index for index in group.members if index != first]
        if group is base:
            yield from ((first, index) for index in others)
        else:
            same = group.seeds.index(seed) if seed in group.seeds else 0
            yield first, others[same]


def metric_names(records: Sequence[RunRecord]) -> list[str]:
    """Every metric that at least one of the runs has logged."""
    return sorted({name for record in records for name in record.columns.names})


def at_equal_steps(records: Sequence[RunRecord], metric: str) -> dict[str, object]:
    """``{"steps": [...], "values": {id: [...]}}``: null where a run has no value at a step.

    UsageError for a metric that no run has.
    """
    name, names = canonical(metric), metric_names(records)
    if name not in names:
        raise unknown_metric(metric, names, records[0].id)
    columns = [record.columns.get(name) for record in records]
    steps = np.unique(np.concatenate([column.steps for column in columns]))
    values = {
        record.id: [None if np.isnan(value) else float(value) for value in column.at(steps, np.nan)]
        for record, column in zip(records, columns, strict=True)
    }
    return {"steps": [int(step) for step in steps], "values": values}
