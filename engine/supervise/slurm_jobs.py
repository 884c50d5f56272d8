"""Slurm, asked through its commands: sbatch, squeue, sacct and scancel (slurm.schedmd.com)."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.supervise.ray_jobs import JobError

_TIMEOUT_S = 30.0
_JOB_ID = re.compile(r"\d{1,18}")
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


@dataclass(frozen=True)
class SlurmJob:
    """``slurm_job.json``: written before the job is submitted, so that no job is ever unknown.

    ``id`` is None until sbatch has answered; ``name`` is unique. ``ended`` is the state it ended
    with, None while it may run.
    """

    name: str
    options: tuple[str, ...]
    id: str | None = None
    ended: str | None = None

    @property
    def title(self) -> str:
        return f"Slurm job {self.id or self.name}"

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
    places = (f"--chdir={cwd}", f"--output={_without_patterns(job_log(attempt))}")
    answer = _ask("sbatch", "--parsable", f"--job-name={job.name}", *places, *options, text=script)
    number = answer.strip().split("\n")[-1].split(";")[0]
    if not _JOB_ID.fullmatch(number):
        raise SlurmError(f"sbatch answered {number[:80]!r} instead of the ID of a job")
    return number


def find_id(job: SlurmJob) -> str | None:
    """The ID of a job whose submission was not answered. Raises SlurmError."""
    answer = _ask("squeue", "--noheader", f"--name={job.name}", "--format=%i").split()
    return next((number for number in answer if _JOB_ID.fullmatch(number)), None)


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


def job_log(attempt: Path) -> Path:
    """What the job prints: Slurm writes it, the follower copies it to the console."""
    return attempt / "job.log"


def exit_file(attempt: Path) -> Path:
    """Where the job writes its exit code."""
    return attempt / "exit_code"


def write_job(attempt: Path, job: SlurmJob) -> None:
    jsonl.write_json(attempt / "slurm_job.json", {"v": 1, **asdict(job)})


def read_job(attempt: Path) -> SlurmJob | None:
    """The attempt's job; None when it has none or the file is not readable."""
    raw = jsonl.read_json(attempt / "slurm_job.json") or {}
    name, options, number = raw.get("name"), raw.get("options"), raw.get("id")
    if not isinstance(name, str) or not isinstance(options, list):
        return None
    is_id = isinstance(number, str) and _JOB_ID.fullmatch(number) is not None
    ended = jsonl.line(raw.get("ended"))
    return SlurmJob(name, tuple(map(str, options)), number if is_id else None, ended)


def _without_patterns(path: Path) -> str:
    """A path for sbatch, which replaces ``%j`` and the like in the name of a file."""
    return str(path).replace("%", "%%")


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
