"""Finds the findings that were reported before a resume, which the guard ignores."""

from __future__ import annotations

from engine.doctor.metrics import metric_findings, read_context
from engine.findings.finding import Finding, flattened
from engine.history.columns import Columns, read_batches
from engine.preflight.values import value_findings
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state


class KnownFindings:
    """The findings in the steps before an attempt. The first attempt has none."""

    def __init__(self, run: RunDir, attempt: int) -> None:
        self._begin = resumed_step(run, attempt)
        self._ids = frozenset(_ids(run, attempt, self._begin)) if attempt > 1 else frozenset()

    def has(self, finding: Finding) -> bool:
        began_before = finding.onset_step is not None and 0 < finding.onset_step <= self._begin
        return began_before or finding.id in self._ids


def resumed_step(run: RunDir, attempt: int) -> int:
    """Return the step that an attempt resumes from; 0 for the beginning."""
    for entry in run.read_manifest("attempts").get("attempts", []):
        if entry["number"] == attempt:
            return entry.get("from_step") or 0
    return 0


def _ids(run: RunDir, attempt: int, begin: int) -> list[str]:
    columns = Columns()
    for batch in read_batches(run.train_log):
        columns.merge(batch.only((batch.attempts < attempt) & (batch.steps <= begin)))
    context = read_context(run, observed_state(run), columns)
    findings = (*metric_findings(columns, context), *value_findings(context))
    return [finding.id for finding in flattened(findings)]
