"""Compare two to eight runs: results, and differences of config and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.errors import UsageError, unknown_name
from engine.doctor.health import Health
from engine.doctor.metrics.ablation import ablation_findings
from engine.findings.finding import Finding
from engine.history.metrics import canonical
from engine.reports.differences import (
    Difference,
    config_differences,
    environment_differences,
)
from engine.reports.measures import Cell, Measure, measure_run, measures
from engine.reports.run_record import RunRecord, common_step, trained_values
from engine.reports.same_rewards import different_kinds, reward_differences, shared_metrics
from engine.runs.rundir import RunDir

FEWEST, MOST = 2, 8


@dataclass(frozen=True)
class NoEffect:
    """A run that should differ from the baseline but does not, with the finding that shows it."""

    run: str
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        finding = self.finding
        return {
            "run": self.run,
            "id": finding.id,
            "severity": str(finding.severity),
            "title": finding.title,
            "cause": finding.cause,
            "remedies": [remedy.title for remedy in finding.remedies],
        }


@dataclass(frozen=True)
class Comparison:
    """Deltas are relative to the run with index ``baseline``. All runs are compared at the step
    ``until``; None: each at its own end."""

    ids: tuple[str, ...]
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

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": list(self.ids),
            "baseline": self.ids[self.baseline],
            "common_step": self.common,
            "compared_at": self.until,
            "summary": [row.to_json(self.ids, self.baseline) for row in self.summary],
            "config": [self._difference(row) for row in self.config],
            "environment": [self._difference(row) for row in self.environment],
            "no_effect": [entry.to_json() for entry in self.no_effect],
            "reward_scale": list(self.reward_keys),
            "different_kinds": list(self.kinds),
            "shared_metrics": list(self.shared),
            "health": {
                run: None if health is None else health.to_json()
                for run, health in zip(self.ids, self.health, strict=True)
            },
        }

    def _difference(self, row: Difference) -> dict[str, Any]:
        cells = [None if cell is None else cell.to_json() for cell in row.cells]
        values = dict(zip(self.ids, cells, strict=True))
        return {"section": row.section, "key": row.key, "values": values}


def check_choice(runs: Sequence[RunDir]) -> None:
    """UsageError unless these are two to eight different runs."""
    names = [run.id for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"run '{twice}' is named twice; a comparison needs different runs")
    if not FEWEST <= len(runs) <= MOST:
        raise UsageError(f"{len(runs)} run(s) chosen; a comparison takes {FEWEST} to {MOST}")


class Comparer:
    """Compares the same runs repeatedly, and computes only what has changed."""

    def __init__(self, records: Sequence[RunRecord]) -> None:
        self._records = records
        self._cells: dict[str, tuple[object, tuple[Cell, ...]]] = {}
        self._manifests: list[Mapping[str, Any]] = []
        self._config: tuple[Difference, ...] = ()
        self._environment: tuple[Difference, ...] = ()
        self._reward_keys: tuple[str, ...] = ()
        self._kinds: tuple[str, ...] = ()
        self._no_effect: tuple[object, tuple[NoEffect, ...]] = (None, ())

    def compare(self, baseline: int = 0, *, equal_steps: bool = False) -> Comparison:
        """Compare the runs; with ``equal_steps`` up to the last step that all of them have."""
        manifests = [record.manifest for record in self._records]
        if manifests != self._manifests:
            self._manifests = manifests
            self._config = tuple(config_differences(manifests))
            self._environment = tuple(environment_differences(manifests))
            self._reward_keys = reward_differences(manifests)
            self._kinds = different_kinds(manifests)
        common = common_step(self._records)
        until = common if equal_steps else None
        return Comparison(
            tuple(record.run.id for record in self._records),
            baseline,
            common,
            until,
            tuple(measures([self._measure(record, until) for record in self._records])),
            self._config,
            self._environment,
            self._without_effect(baseline),
            self._reward_keys,
            self._kinds,
            shared_metrics(record.columns.names for record in self._records),
            tuple(record.health for record in self._records),
        )

    def _measure(self, record: RunRecord, until: int | None) -> tuple[Cell, ...]:
        version = (record.version, until)
        cached = self._cells.get(record.run.id)
        if cached is None or cached[0] != version:
            cached = self._cells[record.run.id] = (version, measure_run(record, until))
        return cached[1]

    def _without_effect(self, baseline: int) -> tuple[NoEffect, ...]:
        version = (baseline, *(record.version for record in self._records))
        if self._no_effect[0] != version:
            base = self._records[baseline]
            no_effect = tuple(
                NoEffect(record.run.id, finding)
                for record in self._records
                if record is not base
                for finding in ablation_findings(
                    base.columns, record.columns, *trained_values(base, record)
                )
            )
            self._no_effect = (version, no_effect)
        return self._no_effect[1]


def metric_names(records: Sequence[RunRecord]) -> list[str]:
    """Every metric that at least one of the runs has logged."""
    return sorted({name for record in records for name in record.columns.names})


def at_equal_steps(records: Sequence[RunRecord], metric: str) -> dict[str, Any]:
    """``{"steps": [...], "values": {id: [...]}}``: null where a run has no value at a step.

    UsageError for a metric that no run has.
    """
    name, names = canonical(metric), metric_names(records)
    if name not in names:
        raise unknown_name("metric", metric, names)
    columns = [record.columns.get(name) for record in records]
    steps = np.unique(np.concatenate([column.steps for column in columns]))
    values = {
        record.run.id: [
            None if np.isnan(value) else float(value) for value in column.at(steps, np.nan)
        ]
        for record, column in zip(records, columns, strict=True)
    }
    return {"steps": [int(step) for step in steps], "values": values}
