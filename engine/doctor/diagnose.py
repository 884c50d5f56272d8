"""Diagnoses a run or a log: console, metrics and reward records merged, root cause first."""

from __future__ import annotations

from pathlib import Path

from engine.doctor.log_doctor import LogDoctor, source_of
from engine.run.finding import Finding
from engine.run.run import Run


def diagnose_file(path: Path) -> list[Finding]:
    """Return the findings of any program's console log, a metrics file, or a folder with one run.

    Raises OSError if it cannot be read, UsageError if it is none of these.
    """
    return LogDoctor(source_of(path)).diagnose(ended=True)


def diagnose_run(run: Run) -> list[Finding]:
    """Return the findings of a run's newest attempt: console, metrics and reward records."""
    from engine.doctor.live import RunFollower  # The diagnosis of a log needs no metric rules.

    return RunFollower(run).diagnose()[1]
