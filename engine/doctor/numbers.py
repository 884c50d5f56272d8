"""All that a run's numbers show: its series, its reward records and its recipe, root first."""

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
    """Asked again and again of a run that grows; reads of its reward records only what is new."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._attempt = 0
        self._rewards: RewardDiagnosis | None = None

    def findings(self, state: RunState, columns: Columns) -> list[Finding]:
        """The findings now. ``columns`` hold the run's series so far; nothing of it is kept."""
        context = read_context(self._run, state, columns)
        rewards = self._newest().findings(context, columns)
        return merge_numbers(rewards, metric_findings(columns, context), value_findings(context))

    def _newest(self) -> RewardDiagnosis:
        """The records of the newest attempt; earlier ones ended, and were told of."""
        number = len(self._run.attempts())
        if self._rewards is None or number != self._attempt:
            self._attempt = number
            self._rewards = RewardDiagnosis(self._run.attempt(max(1, number)).reward)
        return self._rewards


def number_findings(run: RunDir, state: RunState, columns: Columns) -> list[Finding]:
    """What the numbers of a run show, and the data it was trained on, once."""
    # A checklist's modules are of no use to a screen that asks every second.
    from engine.doctor.data_findings import data_findings

    return fold_consequences([*NumberDiagnosis(run).findings(state, columns), *data_findings(run)])
