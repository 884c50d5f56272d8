"""The entry point of a run's Ray job: ``... ATTEMPT_DIR SUBMISSION_ID``.

It makes sure that the cluster sees the run, then becomes the run's own training command.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from engine.base import files
from engine.supervise.follower import job_log
from engine.supervise.ray_jobs import RayJob, read_job


def main(arguments: Sequence[str]) -> int:
    attempt, submission_id = Path(arguments[0]), arguments[1]
    job = read_job(attempt)
    sees_run = job is not None and job.submission_id == submission_id
    if job is not None and sees_run and Path(job.cwd).is_dir():
        become(job, attempt)
    hidden = Path(job.cwd) if job is not None and sees_run else attempt
    print(not_shared_message([socket.gethostname()], hidden), file=sys.stderr)
    return 1


def not_shared_message(hosts: Sequence[str], folder: Path) -> str:
    return (
        f"RayJobError: {', '.join(hosts)} does not see {folder}: the run and the project folder "
        "must be on a file system that every node of the cluster mounts at the same path"
    )


def become(job: RayJob, attempt: Path) -> NoReturn:
    """Replace this process by the training command; its output goes into the run directory.

    There it outlives the connection to the cluster and the cluster itself.
    """
    print(f"output: {job_log(attempt)}", flush=True)
    log = files.open_to_append(job_log(attempt))
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.chdir(job.cwd)
    os.execve(job.argv[0], job.argv, {**os.environ, **job.environment})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
