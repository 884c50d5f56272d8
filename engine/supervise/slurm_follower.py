"""The local process of a run in Slurm: ``... OPTION ... -- COMMAND ...``.

The supervisor treats it like any trainer. It submits the command with sbatch, copies the job's
output to its own, cancels the job on SIGINT or SIGTERM, and exits with the job's exit code. While
Slurm does not answer, it asks again: a failure of the controller does not fail the run.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.files import read_regular
from engine.runs.rundir import ATTEMPT_DIR_VARIABLE, RUN_ID_VARIABLE
from engine.supervise import slurm_jobs
from engine.supervise.follower import LOOK_S, Contact, Follower, LogCopy, Outcome, Report, say
from engine.supervise.slurm_jobs import JobState, SlurmError, SlurmJob

SHORTEST_POLL_S, LONGEST_POLL_S = 0.5, 15.0
"""Slurm is asked seldom while nothing changes: its controller serves all users."""
UNKNOWN_S = 60.0
"""A job may be missing from squeue for so long before the accounts have it."""
_KILLED_BY = {"CANCELLED": "cancelled, not by this run", "TIMEOUT": "over its time limit"}


def main(arguments: Sequence[str]) -> int:
    words = list(arguments)
    options, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    attempt = Path(os.environ[ATTEMPT_DIR_VARIABLE])
    run_id = re.sub(r"[^A-Za-z0-9_-]", "-", os.environ[RUN_ID_VARIABLE])
    name = f"{run_id}-{attempt.name}-{secrets.token_hex(4)}"
    return SlurmFollower(attempt, SlurmJob(name, tuple(options)), argv).follow()


class SlurmFollower(Follower):
    """One job, from submission to end."""

    def __init__(self, attempt: Path, job: SlurmJob, argv: Sequence[str]) -> None:
        super().__init__(attempt, Report("Slurm", waiting_for="Slurm"))
        self._job, self._argv = job, argv
        self._log = LogCopy(slurm_jobs.job_log(attempt), sys.stdout.fileno())
        self._contact = Contact("Slurm")
        self._passed_on = 0

    def follow(self) -> int:
        """Return the exit code: the job's own, 128 + n after signal n, otherwise 1."""
        self.listen()
        self._keep_job()
        self.tell()
        # A job that no file names could not be found again.
        if not self.flush_until(lambda: bool(self.signals)):
            return self.end(128 + self.signals[0], "stopped")
        try:
            job_id = slurm_jobs.submit(self.attempt, self._job, self._argv, Path.cwd())
        except SlurmError as error:
            self._keep_job(ended="REFUSED")
            return self._end("failed", f"Slurm refused the job: {error}", 1)
        self._keep_job(id=job_id)
        self.tell(where=f"Slurm job {job_id}")
        say(f"Slurm job {job_id} submitted")
        return self._conclude(self._until_end(job_id))

    def _keep_job(self, **changes: Any) -> None:
        self._job = replace(self._job, **changes)
        self.keep("write its job", partial(slurm_jobs.write_job, self.attempt, self._job))

    def _until_end(self, job_id: str) -> JobState | None:
        """The state in which the job ended; None if Slurm no longer knows it."""
        period_s, due, missing_since, last = SHORTEST_POLL_S, 0.0, None, None
        while True:
            self._log.copy()
            self.flush()
            if self._pass_on_stop(job_id):
                period_s, due = SHORTEST_POLL_S, 0.0
            if time.monotonic() < due:
                time.sleep(LOOK_S)
                continue
            now = time.monotonic()
            try:
                state = slurm_jobs.read_state(job_id)
                self._contact.restored()
            except SlurmError as error:
                self._contact.lost(error)
                due = now + period_s
                continue
            missing_since = None if state is not None else (missing_since or now)
            if missing_since is not None and (
                self._exit_code() is not None or now - missing_since > UNKNOWN_S
            ):
                return None
            if state is not None and state.has_ended:
                return state
            period_s = SHORTEST_POLL_S if state != last else min(LONGEST_POLL_S, period_s * 1.5)
            if state is not None and state != last:
                reason = f" ({state.detail})" if state.detail not in ("", "None") else ""
                waiting = f"Slurm job {job_id}: {state.state.lower()}{reason}"
                self.tell(waiting_for=waiting if state.is_waiting else None)
            last, due = state, time.monotonic() + period_s

    def _pass_on_stop(self, job_id: str) -> bool:
        """Cancel the job on the first signal, kill it on the second. False without a new one."""
        if self._passed_on == len(self.signals):
            return False
        self._passed_on = len(self.signals)
        try:
            slurm_jobs.cancel(job_id, kill=self._passed_on > 1)
            say(f"cancelled Slurm job {job_id}")
        except SlurmError as error:
            say(f"Slurm job {job_id} could not be cancelled: {error}")
        return True

    def _conclude(self, state: JobState | None) -> int:
        self._log.copy()
        ended = state.state if state else "GONE"
        self._keep_job(ended=ended)
        where, written = self.report.where, self._exit_code()
        say(f"{where}: {ended}")
        code = written if written is not None else (state.exit_code if state else None)
        if self.signals:
            return self._end("stopped", None, 128 + self.signals[0])
        if state is not None and state.state not in ("COMPLETED", "FAILED") and written is None:
            why = _KILLED_BY.get(state.state, state.state.lower().replace("_", " "))
            return self._end("failed", f"{where}: {why}", code or 1)
        if code is None:
            return self._end("unknown", f"{where}: Slurm no longer knows how it ended", 1)
        return self._end("exited", None, code)

    def _exit_code(self) -> int | None:
        """The exit code that the job wrote itself."""
        try:
            text = read_regular(slurm_jobs.exit_file(self.attempt), limit=16).decode().strip()
        except (OSError, UnicodeError):
            return None
        return int(text) if text.isdecimal() and len(text) <= 3 else None

    def _end(self, outcome: Outcome, reason: str | None, code: int) -> int:
        if reason is not None:
            say(reason)
        return self.end(code, outcome, reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
