"""A run in Slurm, which is asked through its commands: sbatch, squeue, sacct and scancel.

``python -m engine.supervise.slurm_jobs OPTION ... -- COMMAND ...`` is the local process of such a
run. The supervisor treats it like any trainer. It submits the command with sbatch, copies the job's
output to its own, cancels the job on SIGINT or SIGTERM, and exits with the job's exit code. While
Slurm does not answer, it asks again: a failure of the controller does not fail the run.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from engine.base import jsonl, typed
from engine.base.errors import UsageError
from engine.base.files import read_regular
from engine.run.host.programs import own_module
from engine.run.run import ATTEMPT_DIR_VARIABLE, RUN_ID_VARIABLE
from engine.supervise.follower import LOOK_S, JobError, JobFollower, Outcome, Report, job_log, say

_TIMEOUT_S = 30.0
_JOB_FILE = "slurm_job.json"
_JOB_ID = r"\A[0-9]{1,18}\Z"
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"})
_OPTION = re.compile(r"[a-z][a-z0-9-]{0,60}(?:=[^\0\n\r]*)?")
_RESERVED = frozenset({"array", "chdir", "job-name", "output", "error", "parsable", "wait", "wrap"})


class SlurmError(JobError):
    """A command of Slurm is missing, refused, or got no answer: one line."""


@dataclass(frozen=True)
class JobState:
    """``state`` is Slurm's word, e.g. ``PENDING``, and ``detail`` its reason for that.

    ``exit_code`` is that of a job that has ended, or 128 + its signal.
    """

    state: str
    detail: str = ""
    exit_code: int | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING

    @property
    def has_ended(self) -> bool:
        return not self.is_waiting and self.state not in _RUNNING


class SlurmJob(Struct, frozen=True):
    """``slurm_job.json``: written before the job is submitted, so that no job is ever unknown.

    ``id`` is None until sbatch has answered; ``name`` is unique. ``ended`` is the state it ended
    with, None while it may run.
    """

    name: str
    options: tuple[str, ...]
    id: Annotated[str, Meta(pattern=_JOB_ID)] | None = None
    ended: str | None = None

    @property
    def title(self) -> str:
        return f"Slurm job {self.id or self.name}"

    def write(self, attempt: Path) -> None:
        typed.write_record(attempt / _JOB_FILE, self)

    def look(self) -> tuple[SlurmJob, str]:
        """The job with its ID, its end, if it has ended, and Slurm's word for its state. Raises
        JobError."""
        job_id = self.id or find_id(self)
        found = None if job_id is None else read_state(job_id)
        state = found.state if found else "GONE"
        ended = state if found is None or found.has_ended else None
        return replace(self, id=job_id, ended=ended), state

    def cancel(self) -> None:
        """Ask for its end. Raises JobError."""
        if (job_id := self.id or find_id(self)) is not None:
            cancel(job_id)


def parse_options(options: Sequence[str]) -> tuple[str, ...]:
    """Options of sbatch as ``partition=gpu``, without their dashes. UsageError for one that does
    not look like one, or that a run sets itself."""
    cleaned = tuple(option.removeprefix("--") for option in options)
    for option in cleaned:
        if not _OPTION.fullmatch(option):
            raise UsageError(
                f"--slurm {option!r}: expected an option of sbatch by its long name, "
                "e.g. --slurm partition=gpu"
            )
        if (name := option.partition("=")[0]) in _RESERVED:
            raise UsageError(f"--slurm {name}: a run sets this option itself")
    return cleaned


def submit(attempt: Path, job: SlurmJob, argv: Sequence[str], cwd: Path) -> str:
    """Submit a job that executes ``argv``; its ID. Raises SlurmError.

    The job writes its exit code to a file of the attempt: not every cluster keeps accounts. The
    script goes through a pipe, because the command may hold secrets.
    """
    script = "\n".join(
        (
            "#!/bin/bash",
            shlex.join(argv),
            "code=$?",
            f"echo $code > {shlex.quote(str(exit_file(attempt)))}",
            "exit $code",
            "",
        )
    )
    options = (f"--{option}" for option in job.options)
    log = str(job_log(attempt)).replace("%", "%%")  # sbatch replaces ``%j`` and the like.
    places = (f"--chdir={cwd}", f"--output={log}")
    answer = _ask("sbatch", "--parsable", f"--job-name={job.name}", *places, *options, text=script)
    number = answer.strip().split("\n")[-1].split(";")[0]
    if not re.fullmatch(_JOB_ID, number):
        raise SlurmError(f"sbatch answered {number[:80]!r} instead of the ID of a job")
    return number


def find_id(job: SlurmJob) -> str | None:
    """The ID of a job whose submission was not answered. Raises SlurmError."""
    answer = _ask("squeue", "--noheader", f"--name={job.name}", "--format=%i").split()
    return next((number for number in answer if re.fullmatch(_JOB_ID, number)), None)


def read_state(job_id: str) -> JobState | None:
    """The state of a job; None if Slurm does not know it any more. Raises SlurmError."""
    try:
        answer = _ask("squeue", "--noheader", f"--jobs={job_id}", "--format=%T|%r")
    except SlurmError as error:
        if "invalid job id" not in str(error).lower():
            raise
        answer = ""
    state, _, reason = answer.strip().split("\n")[0].partition("|")
    if state and not (now := JobState(state, reason)).has_ended:
        return now
    return _recorded_state(job_id)


def _recorded_state(job_id: str) -> JobState | None:
    """How a job ended, by the accounts of the cluster; None if it keeps none."""
    options = ("--noheader", "--parsable2", "--allocations", "--format=State,ExitCode")
    try:
        answer = _ask("sacct", *options, f"--jobs={job_id}")
    except SlurmError:
        return None
    state, _, code = answer.strip().split("\n")[0].partition("|")
    if not state:
        return None
    exited, _, number = code.partition(":")
    exit_code = int(exited) if exited.isdecimal() else None
    if not exit_code and number.isdecimal() and int(number):
        exit_code = 128 + int(number)
    return JobState(state.split()[0], "", exit_code)


def cancel(job_id: str, *, kill: bool = False) -> None:
    """Ask for the end of a job: SIGTERM and later SIGKILL, or SIGKILL at once. Raises
    SlurmError."""
    _ask("scancel", *(("--signal=KILL", "--full") if kill else ()), job_id)


def exit_file(attempt: Path) -> Path:
    """Where the job writes its exit code."""
    return attempt / "exit_code"


def read_job(attempt: Path) -> SlurmJob | None:
    """The attempt's job; None when it has none or the file is not readable."""
    return typed.read_record(attempt / _JOB_FILE, SlurmJob)


def _ask(program: str, *arguments: str, text: str = "") -> str:
    try:
        done = subprocess.run(
            [program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise SlurmError(f"{program} is not installed here, or not on the PATH") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{program}: {type(error).__name__}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        words = jsonl.line(lines[-1]) if lines else None
        raise SlurmError((words or f"{program}: exit code {done.returncode}")[:300])
    return done.stdout


SHORTEST_POLL_S, LONGEST_POLL_S = 0.5, 15.0
"""Slurm is asked seldom while nothing changes: its controller serves all users."""
UNKNOWN_S = 60.0
"""A job may be missing from squeue for so long before the accounts have it."""
_KILLED_BY = {"CANCELLED": "cancelled, not by this run", "TIMEOUT": "over its time limit"}


def follower_argv(options: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The local command that runs ``argv`` as a job."""
    return [*own_module("engine.supervise.slurm_jobs", *options, "--"), *argv]


def submitted_argv(words: Sequence[str]) -> list[str]:
    """The command of the job, of the words that ``follower_argv`` made."""
    return list(words[words.index("--") + 1 :])


def main(arguments: Sequence[str]) -> int:
    options, argv = arguments[: arguments.index("--")], submitted_argv(arguments)
    attempt = Path(os.environ[ATTEMPT_DIR_VARIABLE])
    run_id = re.sub(r"[^A-Za-z0-9_-]", "-", os.environ[RUN_ID_VARIABLE])
    name = f"{run_id}-{attempt.name}-{secrets.token_hex(4)}"
    return SlurmFollower(attempt, SlurmJob(name, tuple(options)), argv).follow()


class SlurmFollower(JobFollower):
    """One job, from submission to end."""

    job: SlurmJob

    def __init__(self, attempt: Path, job: SlurmJob, argv: Sequence[str]) -> None:
        super().__init__(attempt, Report("Slurm", waiting_for="Slurm"), job, "Slurm")
        self._argv = argv
        self._passed_on = 0

    def follow(self) -> int:
        """Return the exit code: the job's own, 128 + n after signal n, otherwise 1."""
        self.tell()
        if not self.begin():
            return self.end(128 + self.signals[0], "stopped")
        try:
            job_id = submit(self.attempt, self.job, self._argv, Path.cwd())
        except SlurmError as error:
            self.keep_job(ended="REFUSED")
            return self._end("failed", f"Slurm refused the job: {error}", 1)
        self.keep_job(id=job_id)
        self.tell(where=f"Slurm job {job_id}")
        say(f"Slurm job {job_id} submitted")
        return self._conclude(self._until_end(job_id))

    def _until_end(self, job_id: str) -> JobState | None:
        """The state in which the job ended; None if Slurm no longer knows it."""
        period_s, due, missing_since, last = SHORTEST_POLL_S, 0.0, None, None
        while True:
            self.log.copy()
            self.flush()
            if self._pass_on_stop(job_id):
                period_s, due = SHORTEST_POLL_S, 0.0
            if time.monotonic() < due:
                time.sleep(LOOK_S)
                continue
            now = time.monotonic()
            try:
                state = read_state(job_id)
                self.contact.restored()
            except SlurmError as error:
                self.contact.lost(error)
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
            cancel(job_id, kill=self._passed_on > 1)
            say(f"cancelled Slurm job {job_id}")
        except SlurmError as error:
            say(f"Slurm job {job_id} could not be cancelled: {error}")
        return True

    def _conclude(self, state: JobState | None) -> int:
        self.log.copy()
        ended = state.state if state else "GONE"
        self.keep_job(ended=ended)
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
            text = read_regular(exit_file(self.attempt), limit=16).decode().strip()
        except (OSError, UnicodeError):
            return None
        return int(text) if text.isdecimal() and len(text) <= 3 else None

    def _end(self, outcome: Outcome, reason: str | None, code: int) -> int:
        if reason is not None:
            say(reason)
        return self.end(code, outcome, reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
