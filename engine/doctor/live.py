"""Diagnoses a growing run: each call reads only new data. Memory is bounded."""

from __future__ import annotations

from collections.abc import Sequence

from engine.checks.values import value_findings
from engine.doctor.merge import grade_by_records, merge_findings
from engine.doctor.metrics import metric_findings, read_context
from engine.doctor.metrics.root_cause import fold_consequences
from engine.doctor.rewards import RewardDiagnosis, merge_numbers
from engine.doctor.run_end import adjust_to_run, explain_failure, offer_fixes
from engine.doctor.run_files import RunFiles
from engine.doctor.text.findings import ConsoleDiagnosis, Stopped, never
from engine.run.finding import Finding, flattened
from engine.run.history.columns import Batch, Columns, read_batches
from engine.run.history.live import RunWatch
from engine.run.run import Run
from engine.run.state import RunState, observed_state


class NumberDiagnosis:
    """Diagnoses a growing run repeatedly; reads only the new reward records each time."""

    def __init__(self, run: Run) -> None:
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


class LiveDoctor:
    """Diagnoses the newest attempt of a run; each call reads only new data."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers = NumberDiagnosis(run)
        self._files = RunFiles(run)
        self._console: ConsoleDiagnosis | None = None

    def diagnose(
        self,
        state: RunState,
        columns: Columns,
        stopped: Stopped = never,
        data: Sequence[Finding] = (),
    ) -> list[Finding]:
        """Return the current findings, root causes first.

        ``columns`` hold the run's metrics so far, ``data`` the findings about its training data.
        """
        path = self._run.attempt(max(1, state.attempt)).console
        if self._console is None or self._console.path != path:
            self._console = ConsoleDiagnosis(path)
        reported = self._console.findings(ended=state.has_ended, stopped=stopped)
        text = adjust_to_run(reported, self._run, state)
        numbers = self._numbers.findings(state, columns)
        merged = merge_findings(
            grade_by_records(text, numbers),
            fold_consequences([*numbers, *data]) if data else numbers,
        )
        return [
            *self._files.findings(state),
            *offer_fixes(explain_failure(merged, self._run, state), self._run, state),
        ]


class RunFollower:
    """Reads a run's files and diagnoses the run; each call reads only new data.

    With ``since_attempt``, steps of earlier attempts that were repeated are left out: their
    findings are not those of that attempt.
    """

    def __init__(self, run: Run, since_attempt: int = 1) -> None:
        self._run = run
        # No attempt comes before the first one.
        self._attempt = since_attempt
        self._begin = resumed_step(run, since_attempt) if since_attempt > 1 else 0
        self._doctor, self._watch = LiveDoctor(run), RunWatch(run)
        self._columns = Columns()
        self._data: list[Finding] | None = None

    def diagnose(self, stopped: Stopped = never) -> tuple[RunState, list[Finding]]:
        """Return the state and the current findings. Raises OSError if files cannot be read."""
        state = self._read(stopped)
        if self._data is None:
            # The preflight checks are imported only when needed: start-up time.
            from engine.doctor.data_findings import data_findings

            self._data = data_findings(self._run)
        return state, self._doctor.diagnose(state, self._columns, stopped, self._data)

    def _read(self, stopped: Stopped) -> RunState:
        while True:
            update = self._watch.poll()
            batch = self._without_repeated(update.batch)
            self._columns.update(batch, update.events, restarted=update.restarted)
            self._columns.thin()
            if update.read_share >= 1 or stopped():
                return update.state

    def _without_repeated(self, batch: Batch) -> Batch:
        """Return the batch without steps of earlier attempts that this attempt trained again."""
        return batch.only((batch.attempts >= self._attempt) | (batch.steps <= self._begin))


class KnownFindings:
    """The findings in the steps before an attempt. The first attempt has none."""

    def __init__(self, run: Run, attempt: int) -> None:
        self._begin = resumed_step(run, attempt)
        self._ids = frozenset(_ids(run, attempt, self._begin)) if attempt > 1 else frozenset()

    def has(self, finding: Finding) -> bool:
        began_before = finding.onset_step is not None and 0 < finding.onset_step <= self._begin
        return began_before or finding.id in self._ids


def resumed_step(run: Run, attempt: int) -> int:
    """Return the step that an attempt resumes from; 0 for the beginning."""
    attempts = run.read_manifest().attempts
    return next((each.from_step or 0 for each in attempts if each.number == attempt), 0)


def _ids(run: Run, attempt: int, begin: int) -> list[str]:
    columns = Columns()
    for batch in read_batches(run.train_log):
        columns.merge(batch.only((batch.attempts < attempt) & (batch.steps <= begin)))
    context = read_context(run, observed_state(run), columns)
    findings = (*metric_findings(columns, context), *value_findings(context))
    return [finding.id for finding in flattened(findings)]
