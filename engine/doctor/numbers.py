"""Diagnoses the metrics, the reward records and the config of a run, root cause first."""

from __future__ import annotations

from engine.doctor.metrics import metric_findings, read_context
from engine.doctor.metrics.root_cause import fold_consequences
from engine.doctor.rewards import RewardDiagnosis, merge_numbers
from engine.findings.finding import Finding
from engine.history.columns import Columns
from engine.preflight.values import value_findings
from engine.runs.rundir import RunDir
from engine.runs.state import RunState


class NumberDiagnosis:
    """Diagnoses a growing run repeatedly; reads only the new reward records each time."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._attempt = 0
        self._rewards: RewardDiagnosis | None = None

    def findings(self, state: RunState, columns: Columns) -> list[Finding]:
        """Return the current findings. ``columns`` holds the run's metrics so far."""
        context = read_context(self._run, state, columns)
        rewards = self._newest().findings(context, columns)
        return merge_numbers(rewards, metric_findings(columns, context), value_findings(context))

    def _newest(self) -> RewardDiagnosis:
        """Return the diagnosis of the newest attempt's records; earlier attempts have ended."""
        number = len(self._run.attempts())
        if self._rewards is None or number != self._attempt:
            self._attempt = number
            self._rewards = RewardDiagnosis(self._run.attempt(max(1, number)).reward)
        return self._rewards


def number_findings(run: RunDir, state: RunState, columns: Columns) -> list[Finding]:
    """Return the findings of a run's metrics, records and config, and of its training data."""
    # A screen that polls does not need the modules of the preflight checks.
    from engine.doctor.data_findings import data_findings

    return fold_consequences([*NumberDiagnosis(run).findings(state, columns), *data_findings(run)])
