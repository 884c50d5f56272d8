"""The local process of a run elsewhere: a job of Slurm or of a Ray cluster, or an adopted program.

Such a process, the follower, is the trainer for the supervisor: it copies the output, passes on a
stop, and ends when the run does. What an exit code cannot say is in ``follower.json``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from engine.base import files, typed
from engine.base.typed import Moment
from engine.supervise.troubles import Troubles

LOOK_S = 0.25
LAST_WORDS_S = 600.0
"""A follower that cannot write how its run ended tries again for so long."""

Outcome = Literal["exited", "stopped", "failed", "unknown", "left"]


class Report(Struct, frozen=True):
    """``where`` names the run, e.g. ``Slurm job 17``.

    ``outcome`` is None until the end: ``exited`` with the follower's exit code, ``failed`` or
    ``unknown`` for ``reason``, ``stopped`` by this run, ``left`` running. ``waiting_for``: why it
    has not started. ``quiet``: why it may not be running. Times are Unix seconds where they are
    known.
    """

    where: str
    waiting_for: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    quiet: str | None = None
    ended: Moment | None = None


HERE = Report("this machine", outcome="exited")


def write_report(attempt: Path, report: Report) -> None:
    typed.write_record(attempt / "follower.json", report)


def read_report(attempt: Path) -> Report | None:
    """Return the last report of an attempt's follower, or None without one."""
    return typed.read_record(attempt / "follower.json", Report)


class Follower:
    """What all followers share: the signals, and files that are written once the system lets them.

    A full disk or an input/output error is no reason to leave a run alone: whatever cannot be
    written now is written in a later turn.
    """

    def __init__(self, attempt: Path, report: Report) -> None:
        self.attempt, self.report = attempt, report
        self.signals: list[int] = []
        self.troubles = Troubles(say)
        self._unwritten: dict[str, Callable[[], object]] = {}

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _frame: self.signals.append(number))

    def tell(self, **changes: Any) -> None:
        """Report what has changed."""
        self.report = replace(self.report, **changes)
        self.keep("write its report", partial(write_report, self.attempt, self.report))

    def keep(self, part: str, write: Callable[[], object]) -> None:
        """Write something, as ``cannot PART`` names it, now or in a later turn."""
        self._unwritten[part] = write
        self.flush()

    def flush(self) -> bool:
        """Whether everything is written."""
        for part, write in list(self._unwritten.items()):
            if self.troubles.survive(part, write):
                del self._unwritten[part]
        return not self._unwritten

    def flush_until(self, is_over: Callable[[], bool]) -> bool:
        """Try until everything is written, or ``is_over``; whether it is."""
        while not self.flush():
            if is_over():
                return False
            time.sleep(LOOK_S)
        return True

    def end(self, code: int, outcome: Outcome, reason: str | None = None, **details: Any) -> int:
        """Report how the run ended, and return the exit code."""
        self.tell(outcome=outcome, reason=reason, waiting_for=None, quiet=None, **details)
        deadline = time.monotonic() + LAST_WORDS_S
        self.flush_until(lambda: time.monotonic() > deadline)
        return code


class Contact:
    """Says once that a cluster stopped answering, and once that it answers again."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._lost: float | None = None

    def lost(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = time.monotonic()
            say(f"no answer from {self._cluster} ({error}); asking again ...")

    def restored(self) -> None:
        if self._lost is not None:
            silence = time.monotonic() - self._lost
            self._lost = None
            say(f"{self._cluster} answers again after {silence:.0f} s")


class LogCopy:
    """Copies what is new in a growing file, each byte once."""

    def __init__(self, path: Path, out: int) -> None:
        self.path = path
        self.offset = 0
        self._out = out

    def copy(self) -> None:
        """Copy new bytes. Errors (no file yet, full disk) are left to the next call."""
        # Opened each time: otherwise a network file system does not look for new bytes.
        with contextlib.suppress(OSError), files.open_regular(self.path) as source:
            source.seek(self.offset)
            while block := source.read(1 << 20):
                while block:
                    written = os.write(self._out, block)
                    self.offset += written
                    block = block[written:]


class JobError(Exception):
    """What runs a job, a Ray cluster or Slurm, does not do what was asked: one line."""


def job_log(attempt: Path) -> Path:
    """What the job prints, which the follower copies to the console."""
    return attempt / "job.log"


class JobFollower(Follower):
    """What the followers of one job share."""

    job: Any

    def __init__(self, attempt: Path, report: Report, job: Any, cluster: str) -> None:
        super().__init__(attempt, report)
        self.job = job
        self.log = LogCopy(job_log(attempt), sys.stdout.fileno())
        self.contact = Contact(cluster)

    def keep_job(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)
        self.keep("write its job", partial(self.job.write, self.attempt))

    def begin(self) -> bool:
        """Write the record; False if a signal came before it could be written."""
        self.listen()
        self.keep_job()
        return self.flush_until(lambda: bool(self.signals))


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk
        print(text, flush=True)
