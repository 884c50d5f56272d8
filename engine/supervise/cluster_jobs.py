"""What a run may have left elsewhere: jobs on a Ray cluster or in Slurm, or an adopted program."""

from __future__ import annotations

from engine.runs.rundir import RunDir
from engine.supervise import adopted, ray_jobs, slurm_jobs


def left_on_cluster(run: RunDir) -> str | None:
    """Why a job of this run may still run elsewhere; None when there is none.

    UsageError for a run that is not trusted.
    """
    return (
        ray_jobs.left_on_cluster(run) or slurm_jobs.left_in_slurm(run) or adopted.left_running(run)
    )


def stop_left(run: RunDir) -> None:
    """Stop the jobs that a run without a supervisor left elsewhere; wait until they end."""
    ray_jobs.stop_left(run)
    slurm_jobs.stop_left(run)
    adopted.stop_left(run)


def has_open_jobs(run: RunDir) -> bool:
    """Whether a job may be left elsewhere, by the files of the run."""
    return (
        ray_jobs.has_open_jobs(run)
        or bool(slurm_jobs.open_jobs(run))
        or adopted.left_process(run) is not None
    )
