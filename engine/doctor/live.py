"""Diagnoses a growing run: each call reads only new data. Memory is bounded."""

from __future__ import annotations

from collections.abc import Sequence

from engine.doctor.already_known import resumed_step
from engine.doctor.console import ConsoleDiagnosis, Stopped, never
from engine.doctor.merge import grade_by_records, merge_findings
from engine.doctor.metrics.root_cause import fold_consequences
from engine.doctor.numbers import NumberDiagnosis
from engine.doctor.run_end import adjust_to_run, explain_failure, offer_fixes
from engine.doctor.save_memory import SaveMemory
from engine.doctor.stalled import stall_findings
from engine.doctor.unread_metrics import unread_metrics_findings
from engine.findings.finding import Finding
from engine.history.columns import Batch, Columns
from engine.history.live import RunWatch
from engine.runs.rundir import RunDir
from engine.runs.state import RunState


class LiveDoctor:
    """Diagnoses the newest attempt of a run; each call reads only new data."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._numbers = NumberDiagnosis(run)
        self._save_memory = SaveMemory(run)
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
            *stall_findings(self._run, state),
            *unread_metrics_findings(self._run, state),
            *self._save_memory.findings(state),
            *offer_fixes(explain_failure(merged, self._run, state), self._run, state),
        ]


class RunFollower:
    """Reads a run's files and diagnoses the run; each call reads only new data.

    With ``since_attempt``, steps of earlier attempts that were repeated are left out: their
    findings are not those of that attempt.
    """

    def __init__(self, run: RunDir, since_attempt: int = 1) -> None:
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
