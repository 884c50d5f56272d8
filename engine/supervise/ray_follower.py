"""The local process of a trainer on a Ray cluster: ``... ADDRESS -- COMMAND ...``.

The supervisor treats it like any trainer. It submits the command as a job, copies the job's output
to its own, stops the job on SIGINT or SIGTERM, and exits with the job's exit code. While the
cluster does not answer, it prints that and repeats its request: a network failure does not fail the
run.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.host.programs import keep_folder_last
from engine.runs.rundir import ATTEMPT_DIR_VARIABLE, ON_CLUSTER_VARIABLE, RUN_ID_VARIABLE
from engine.supervise.follower import Contact, Follower, LogCopy, Report, say
from engine.supervise.ray_jobs import (
    CARRIED,
    Cluster,
    Job,
    RayJob,
    RefusedError,
    UnreachableError,
    job_log,
    write_job,
)

POLL_S = 1.0
# Ray kills a job that outlives this; shorter than the supervisor waits before its next signal.
STOP_WAIT_S = 10


def main(arguments: Sequence[str]) -> int:
    address, _, *argv = arguments
    attempt = Path(os.environ[ATTEMPT_DIR_VARIABLE])
    job = RayJob(
        address=address,
        submission_id=new_submission_id(os.environ[RUN_ID_VARIABLE], attempt.name),
        cwd=str(Path.cwd()),
        argv=tuple(argv),
        environment=carried(os.environ),
    )
    return RayFollower(attempt, job).follow()


def new_submission_id(run_id: str, attempt: str) -> str:
    """Unique on a cluster that others use too, and safe in a URL and a file name."""
    return f"grubrics-{re.sub(r'[^A-Za-z0-9_-]', '-', run_id)}-{attempt}-{secrets.token_hex(4)}"


def carried(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that the job needs, from a fixed list: others may hold secrets."""
    return {ON_CLUSTER_VARIABLE: "1", **{name: env[name] for name in CARRIED if name in env}}


def entrypoint(attempt: Path, job: RayJob) -> str:
    """The job's command; Ray hands it to a shell, so every word is quoted."""
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    keep_folder_last(env)
    driver = (sys.executable, "-m", "engine.train.ray_driver", str(attempt), job.submission_id)
    return shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *driver])


class RayFollower(Follower):
    """One job, from submission to end."""

    def __init__(self, attempt: Path, job: RayJob) -> None:
        super().__init__(attempt, Report(f"job {job.submission_id}"))
        self.job = job
        self.cluster: Cluster = job.cluster
        self._log = LogCopy(job_log(attempt), sys.stdout.fileno())
        self._contact = Contact(job.address)
        self._stop_asked = False

    def follow(self) -> int:
        """Return the exit code: the job's own, 128 + n after signal n, otherwise 1."""
        self.listen()
        self._keep_job()
        # A job that no file names could not be found again.
        if not self.flush_until(lambda: bool(self.signals)):
            return 128 + self.signals[0]
        try:
            self._submit()
        except RefusedError as error:
            say(f"RayJobError: {self.job.address}: {error}")
            return 1
        return self._conclude(self._until_end())

    def _keep_job(self) -> None:
        self.keep("write its job", partial(write_job, self.attempt, self.job))

    def _submit(self) -> None:
        """Submit once: a lost answer must not start the job twice."""
        command = entrypoint(self.attempt, self.job)
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}
        while not self.signals:
            try:
                if self.cluster.job(self.job.submission_id) is None:
                    self.cluster.submit(self.job.submission_id, command, variables)
                self._contact.restored()
                say(f"Ray job {self.job.submission_id} submitted to {self.job.address}")
                return
            except UnreachableError as error:
                self._contact.lost(error)
                time.sleep(POLL_S)

    def _until_end(self) -> Job | None:
        """The ended job; None if it cannot be followed any further."""
        while True:
            self._log.copy()
            try:
                self._pass_on_stop()
                job = self.cluster.job(self.job.submission_id)
                self._contact.restored()
                if job is None or job.has_ended:
                    return job or Job("GONE", "the cluster does not know the job", None)
            except (UnreachableError, RefusedError) as error:
                self._contact.lost(error)
                if len(self.signals) > 1:
                    return None
            time.sleep(POLL_S)

    def _pass_on_stop(self) -> None:
        """Stop the job, repeatedly: Ray forgets a stop that comes before the job has started."""
        if not self.signals:
            return
        self.cluster.stop(self.job.submission_id)
        if not self._stop_asked:
            self._stop_asked = True
            say(f"asked {self.job.address} to stop the job")

    def _conclude(self, job: Job | None) -> int:
        if job is None:
            say(f"RayJobError: {self.job.address} does not answer; the job may still run there")
            return 1
        # A failure does no harm: later commands ask the cluster.
        self.job = replace(self.job, ended=job.status)
        self._keep_job()
        self._log.copy()
        if self._log.offset == 0 and job.status == "FAILED":
            say(self._own_log() or job.message)
        say(f"Ray job {self.job.submission_id}: {job.status}")
        if self._stop_asked and job.status != "SUCCEEDED":
            return 128 + self.signals[0]
        if job.status in ("STOPPED", "GONE"):
            say(f"RayJobError: {job.status.lower()} on the cluster, not by this run: {job.message}")
            return 1
        return exit_code(job)

    def _own_log(self) -> str:
        """Ray's log of the job: it names the error if the job did not start."""
        try:
            return self.cluster.logs(self.job.submission_id).rstrip()
        except (UnreachableError, RefusedError):
            return ""


def exit_code(job: Job) -> int:
    """The job's exit code as a shell shows it."""
    if job.status == "SUCCEEDED":
        return 0
    code = job.exit_code or 1
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
