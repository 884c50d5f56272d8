"""Diagnoses a run or a log: console, metrics and reward records merged, root cause first."""

from __future__ import annotations

from pathlib import Path

from engine.doctor.log_doctor import LogDoctor, source_of
from engine.doctor.merge import grade_by_records, merge_findings
from engine.doctor.text.findings import findings, read_log
from engine.findings.finding import Finding
from engine.runs.rundir import RunDir

__all__ = ["diagnose_file", "diagnose_run", "merge_findings"]


def diagnose_file(path: Path) -> list[Finding]:
    """Return the findings of any program's console log, a metrics file, or a folder with one run.

    Raises OSError if it cannot be read, UsageError if it is none of these.
    """
    return LogDoctor(source_of(path)).diagnose(ended=True)


def diagnose_run(run: RunDir) -> list[Finding]:
    """Return the findings of a run's newest attempt: console, metrics and reward records."""
    from engine.doctor.numbers import number_findings
    from engine.doctor.run_end import adjust_to_run, explain_failure, offer_fixes
    from engine.doctor.save_memory import SaveMemory
    from engine.doctor.stalled import stall_findings
    from engine.doctor.unread_metrics import unread_metrics_findings
    from engine.history.columns import Columns
    from engine.runs.state import observed_state

    attempts = run.attempts()
    state = observed_state(run)
    numbers = number_findings(run, state, Columns.read(run.train_log))
    of_machine = [
        *stall_findings(run, state),
        *unread_metrics_findings(run, state),
        *SaveMemory(run).findings(state),
    ]
    if not attempts:
        return [*of_machine, *numbers]
    console = attempts[-1].console
    text = findings(read_log(console), str(console)) if console.is_file() else []
    text = adjust_to_run(text, run, state)
    merged = merge_findings(grade_by_records(text, numbers), numbers)
    return [*of_machine, *offer_fixes(explain_failure(merged, run, state), run, state)]
