"""The job of an attempt on a Ray cluster, remembered beside its console."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.runs.rundir import ATTEMPT_DIR_VARIABLE, RUN_ID_VARIABLE, Attempt, RunDir
from engine.runs.trust import require
from engine.supervise.ray_api import Cluster, RefusedError, UnreachableError

CARRIED = (
    RUN_ID_VARIABLE,
    ATTEMPT_DIR_VARIABLE,
    "VERL_FILE_LOGGER_PATH",
    "WANDB_RUN_ID",
    "WANDB_RESUME",
    "WANDB_MODE",
)
"""What a job's processes are told of the environment it was launched in; all else may be secret."""

_STOP_PATIENCE_S = 30.0


@dataclass(frozen=True)
class RayJob:
    """``ray_job.json``: written before the job is submitted, so that no job is ever unknown.

    ``ended`` is the status it ended with, None while it may run. ``environment`` is what it gets
    beyond the cluster's own environment; it holds no secrets.
    """

    address: str
    submission_id: str
    cwd: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    ended: str | None = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.address)


def job_file(attempt: Path) -> Path:
    return attempt / "ray_job.json"


def job_log(attempt: Path) -> Path:
    """What the job prints: the job writes it, the follower copies it to the console."""
    return attempt / "job.log"


def write_job(attempt: Path, job: RayJob) -> None:
    jsonl.write_json(job_file(attempt), {"v": 1, **asdict(job)})


def read_job(attempt: Path) -> RayJob | None:
    """The attempt's job; None when it has none or the file is not readable."""
    raw = jsonl.read_json(job_file(attempt)) or {}
    return _from_json(raw)


def _from_json(raw: Mapping[str, Any]) -> RayJob | None:
    try:
        return RayJob(
            address=str(raw["address"]),
            submission_id=str(raw["submission_id"]),
            cwd=str(raw["cwd"]),
            argv=tuple(str(word) for word in raw["argv"]),
            environment={str(name): str(value) for name, value in raw["environment"].items()},
            ended=raw.get("ended"),
        )
    except (KeyError, TypeError, AttributeError):
        return None


def left_on_cluster(run: RunDir) -> str | None:
    """Why a job of this run may still be on its cluster; None when there is none."""
    for attempt, job in _open_jobs(run):
        where = f"job {job.submission_id} on {job.address}"
        try:
            found = job.cluster.job(job.submission_id)
        except (UnreachableError, RefusedError) as error:
            return f"{where} may still run: {error}"
        if found is not None and not found.has_ended:
            return f"{where} is {found.status}"
        _close(attempt, job, found.status if found else "GONE")
    return None


def stop_left(run: RunDir) -> None:
    """Stop what a run without a supervisor left on its cluster; wait until it has ended.

    ``left_on_cluster`` says what came of it.
    """
    deadline = time.monotonic() + _STOP_PATIENCE_S
    while left_on_cluster(run) is not None and time.monotonic() < deadline:
        for _, job in _open_jobs(run):
            try:
                job.cluster.stop(job.submission_id)
            except (UnreachableError, RefusedError):
                return
        time.sleep(0.5)


def has_open_jobs(run: RunDir) -> bool:
    """Whether a job may be left of which its cluster has to be asked."""
    return any(job.ended is None for one in run.attempts() if (job := read_job(one.path)))


def _open_jobs(run: RunDir) -> list[tuple[Attempt, RayJob]]:
    """The jobs to ask after. Only the cluster that the run was launched on is asked, for it is
    sent this user's token; UsageError for a run whose word on that is not taken."""
    found = [(attempt, read_job(attempt.path)) for attempt in run.attempts()]
    still = [(attempt, job) for attempt, job in found if job is not None and job.ended is None]
    if still:
        require(run, executes=True)
    cluster = run.read_manifest().get("ray")
    return [(attempt, job) for attempt, job in still if job.address == cluster]


def _close(attempt: Attempt, job: RayJob, status: str) -> None:
    write_job(attempt.path, RayJob(**{**vars(job), "ended": status}))
