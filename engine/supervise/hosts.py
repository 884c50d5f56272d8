"""Where a run trains: on this machine, as a job in Slurm or on a Ray cluster, or where somebody
launched the program that it adopted.

For the supervisor, a local process is the trainer in each case; of a run elsewhere that process is
its follower (``follower.py``). A copy of a run leaves nothing elsewhere: what its files name
belongs to the original.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.run.identity import Identity
from engine.run.manifest import Adopted, Manifest
from engine.run.marks import is_copy
from engine.run.processes import alive, end, tree
from engine.run.run import Attempt, Run
from engine.run.state import observed_state
from engine.run.trust import require
from engine.supervise import ray_jobs, slurm_jobs
from engine.supervise.follower import HERE, JobError, Report, read_report, write_report
from engine.supervise.ray_jobs import RayJob
from engine.supervise.slurm_jobs import SlurmJob
from engine.supervise.trainer import Trainer

J = TypeVar("J", bound=RayJob | SlurmJob)

_JOB_PATIENCE_S = 30.0
_PROGRAM_PATIENCE_S = 10.0


def find_host(run: Run, manifest: Manifest | None = None) -> Host:
    """Where the run trains, by its manifest (default: that on disk)."""
    manifest = manifest or run.read_manifest()
    if manifest.adopted is not None:
        return AdoptedHost(run, manifest.adopted)
    if manifest.slurm:
        return SlurmHost(run, slurm_jobs.read_job)
    return RayHost(run, manifest.ray) if manifest.ray else Host(run)


class Host:
    """This machine, and what the other hosts have in common with it."""

    where = HERE.where
    first_wait = "trainer process"
    """What a run waits for when its local process starts."""
    trains_here = True
    """Whether a trainer on GPUs takes those of this machine."""
    ran_before = False
    """Whether the program ran before its supervision: all that its files hold is this run, and
    nobody hears its exit code."""
    shows_by_files = False
    """Whether the growth of its files tells whether the program runs, and not its steps."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def started(self, at: float | None) -> float | None:
        """When the training that begins now started, in Unix seconds, or None where that is not
        known. ``at``: when its local process did."""
        return at

    def report(self, attempt: Path) -> Report | None:
        """What the follower says in the attempt's folder; None as long as it says nothing."""
        return HERE  # The exit code says everything, on a Ray cluster too.

    def process(self, trainer: Trainer) -> Identity | None:
        """The process that all others work for; None where it is not known."""
        return trainer.identity

    def members(self, trainer: Trainer) -> list[Identity]:
        """The processes on this machine that do the work."""
        return trainer.members()

    def program(self) -> list[Identity]:
        """Those that do not carry the mark of the run."""
        return []

    def require_stoppable(self, *, detach: bool = False) -> None:
        """Raise UsageError where a stop would not know what to end, or ``detach`` cannot leave a
        program running."""
        if detach:
            raise UsageError(
                f"run '{self.run.id}' was launched here, not adopted; --detach is not for it"
            )

    def find_running(self) -> str:
        """The processes from elsewhere that a stop ends, such as ``process 12 (train.py) and its 3
        descendants``; empty where it ends none."""
        return ""

    def has_unknown_end(self) -> bool:
        """Whether the program was followed to its end, so that it may have succeeded."""
        return False

    def may_have_left(self) -> bool:
        """Whether something may run on elsewhere, by the files of the run."""
        return False

    def left(self) -> str | None:
        """What runs on elsewhere, or may, in words; None where nothing does. UsageError for a run
        that is not trusted."""
        return None

    def stop_left(self) -> str | None:
        """Stop what a run without a supervisor left elsewhere, wait until it ends, and return what
        is still ``left``."""
        return None

    def leave(self) -> None:
        """Record that what a run without a supervisor left elsewhere is left running."""


class _JobHost(Host, Generic[J]):
    """A cluster that runs jobs; the folder of each attempt has the record of one."""

    def __init__(self, run: Run, read_job: Callable[[Path], J | None]) -> None:
        super().__init__(run)
        self._read_job = read_job

    def may_have_left(self) -> bool:
        return bool(self._open_jobs())

    def left(self) -> str | None:
        for attempt, job in self._trusted_jobs():
            try:
                found, state = job.look()
            except JobError as error:
                return f"{job.title} may still run: {error}"
            if found.ended is None:
                return f"{found.title} is {state}"
            found.write(attempt.path)
        return None

    def stop_left(self) -> str | None:
        deadline = time.monotonic() + _JOB_PATIENCE_S
        while (left := self.left()) is not None and time.monotonic() < deadline:
            try:
                for _, job in self._trusted_jobs():
                    job.cancel()
            except JobError:
                return self.left()
            time.sleep(0.5)
        return left

    def _open_jobs(self) -> list[tuple[Attempt, J]]:
        attempts = [] if is_copy(self.run) else self.run.attempts()
        jobs = ((attempt, self._read_job(attempt.path)) for attempt in attempts)
        return [(attempt, job) for attempt, job in jobs if job is not None and job.ended is None]

    def _trusted_jobs(self) -> list[tuple[Attempt, J]]:
        """The jobs that may still run. UsageError for a run that is not trusted."""
        if jobs := self._open_jobs():
            require(self.run, executes=True)
        return jobs


class SlurmHost(_JobHost[SlurmJob]):
    """Slurm: its follower reports what a job waits for, and how it ended."""

    where = "the program"

    def started(self, at: float | None) -> float | None:
        return time.time()

    def report(self, attempt: Path) -> Report | None:
        return read_report(attempt)


class RayHost(_JobHost[RayJob]):
    """A Ray cluster: ``address`` is that of its job server."""

    trains_here = False

    def __init__(self, run: Run, address: str) -> None:
        super().__init__(run, ray_jobs.read_job)
        self._address = address

    def _trusted_jobs(self) -> list[tuple[Attempt, RayJob]]:
        """Only those on the cluster of the launch: requests carry a token of this user."""
        return [pair for pair in super()._trusted_jobs() if pair[1].address == self._address]


class AdoptedHost(Host):
    """Wherever somebody launched the program that the run follows."""

    first_wait = "its log"
    ran_before = True

    def __init__(self, run: Run, adopted: Adopted) -> None:
        super().__init__(run)
        self.adopted = adopted
        self.where, self.shows_by_files = adopted.where, adopted.path is not None

    def started(self, at: float | None) -> float | None:
        return self.adopted.started

    def report(self, attempt: Path) -> Report | None:
        return read_report(attempt)

    def process(self, trainer: Trainer) -> Identity | None:
        return self.adopted.process

    def members(self, trainer: Trainer) -> list[Identity]:
        return self.program()

    def program(self) -> list[Identity]:
        return tree(self.adopted.process) if self.adopted.process else []

    def require_stoppable(self, *, detach: bool = False) -> None:
        if detach or self.adopted.process is not None or observed_state(self.run).has_ended:
            return
        raise UsageError(
            f"run '{self.run.id}' follows {self.where}, and which process writes it is not known. "
            f"To end only its supervision: grubrics-tui stop {self.run.id} --detach"
        )

    def find_running(self) -> str:
        processes = self.program()
        if not processes or (observed_state(self.run).has_ended and not self.may_have_left()):
            return ""
        title = self.run.read_manifest().config_name or "?"
        others = format_count(len(processes) - 1, "descendant")
        more = f" and its {others}" if len(processes) > 1 else ""
        return f"{self.where} ({title}){more}"

    def has_unknown_end(self) -> bool:
        report = self.report(self.run.attempt(1).path)
        return report is not None and report.outcome == "unknown"

    def may_have_left(self) -> bool:
        return self._left_process() is not None

    def left(self) -> str | None:
        if (process := self._left_process()) is None:
            return None
        require(self.run, executes=True)
        return f"its program, process {process.pid}, still runs"

    def stop_left(self) -> str | None:
        if (process := self._left_process()) is not None:
            require(self.run, executes=True)
            end(tree(process), _PROGRAM_PATIENCE_S)
        return self.left()

    def leave(self) -> None:
        if self._left_process() is not None:
            require(self.run)
            write_report(self.run.attempt(1).path, Report(self.where, outcome="left"))

    def _left_process(self) -> Identity | None:
        """The program that runs on after its supervision ended without being asked to."""
        process = self.adopted.process
        if process is None or not alive(process) or is_copy(self.run):
            return None
        report = self.report(self.run.attempt(1).path)
        return process if report is None or report.outcome is None else None
