"""What a run may have left elsewhere: jobs on a Ray cluster or in Slurm, or an adopted program.

A copy of a run has left nothing: what its files name belongs to the original.
"""

from __future__ import annotations

import time

from engine.run.marks import is_copy
from engine.run.rundir import Attempt, RunDir
from engine.run.trust import require
from engine.supervise import adopted, ray_jobs, slurm_jobs
from engine.supervise.follower import JobError
from engine.supervise.ray_jobs import RayJob
from engine.supervise.slurm_jobs import SlurmJob

_STOP_PATIENCE_S = 30.0


def left_on_cluster(run: RunDir) -> str | None:
    """Why a job of this run may still run elsewhere; None when there is none.

    UsageError for a run that is not trusted.
    """
    for attempt, job in _trusted_jobs(run):
        try:
            found, state = job.look()
        except JobError as error:
            return f"{job.title} may still run: {error}"
        if found.ended is None:
            return f"{found.title} is {state}"
        found.write(attempt.path)
    return adopted.left_running(run)


def stop_jobs(run: RunDir) -> None:
    """Stop the jobs that a run left on a cluster, if they can be reached; wait until they end.

    ``left_on_cluster`` returns the result.
    """
    deadline = time.monotonic() + _STOP_PATIENCE_S
    while left_on_cluster(run) is not None and time.monotonic() < deadline:
        jobs = _trusted_jobs(run)
        try:
            for _, job in jobs:
                job.cancel()
        except JobError:
            return
        if not jobs:
            return
        time.sleep(0.5)


def stop_left(run: RunDir) -> None:
    """Stop what a run without a supervisor left elsewhere; wait until it ends."""
    stop_jobs(run)
    adopted.stop_left(run)


def has_open_jobs(run: RunDir) -> bool:
    """Whether a job may be left elsewhere, by the files of the run."""
    return bool(_open_jobs(run)) or adopted.left_process(run) is not None


def _open_jobs(run: RunDir) -> list[tuple[Attempt, RayJob | SlurmJob]]:
    readers = (ray_jobs.read_job, slurm_jobs.read_job)
    return [
        (attempt, job)
        for read in readers
        for attempt in ([] if is_copy(run) else run.attempts())
        if (job := read(attempt.path)) is not None and job.ended is None
    ]


def _trusted_jobs(run: RunDir) -> list[tuple[Attempt, RayJob | SlurmJob]]:
    """The jobs that may still run; of Ray's only those on the cluster of the launch: requests carry
    this user's token. UsageError for a run that is not trusted."""
    jobs = _open_jobs(run)
    if jobs:
        require(run, executes=True)
    cluster = run.read_manifest().get("ray") if jobs else None
    return [
        (attempt, job)
        for attempt, job in jobs
        if isinstance(job, SlurmJob) or job.address == cluster
    ]
