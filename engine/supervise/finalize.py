"""Finalize lost runs: write the state and the steps that their supervisor could not write."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import replace

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.base.quantities import format_time
from engine.run.events import log_event
from engine.run.history.train_log import Step, read_steps
from engine.run.processes import members
from engine.run.run import Attempt, Run
from engine.run.state import observed_state, recorded_state, write_end
from engine.run.trust import require
from engine.supervise.program_steps import open_steps


@contextlib.contextmanager
def hold_run(run: Run) -> Iterator[None]:
    """Lock a run while it is finalized or a new attempt is started.

    UsageError if another process has locked it, or if the run is not trusted. The lock ends with
    its process, so none is ever left behind. On a file system without locks, nothing is locked.
    """
    require(run)
    descriptor = files.open_lock(run.path / ".lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(
            f"run '{run.id}' is being stopped or resumed by another process"
        ) from error
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(descriptor)


def finalize_if_lost(run: Run, noticed_by: str) -> None:
    """Finalize a lost run, unless it is locked or cannot be written."""
    with contextlib.suppress(UsageError, OSError), hold_run(run):
        finalize(run, noticed_by)


def finalize(run: Run, noticed_by: str) -> None:
    """Finalize a lost run, whose trainer may have kept running for a long time.

    Its remaining steps join the history; event and state record which command noticed the loss, and
    when. Does nothing if the run is not lost or has processes left. Call it within ``hold_run``.
    """
    recorded = recorded_state(run)
    lost = observed_state(run)
    if recorded is None or recorded.has_ended or lost.state != "lost" or members(run):
        return
    last_step, last_sign = lost.step, lost.heartbeat
    for step in _unwritten(run, run.attempt(lost.attempt)):
        jsonl.append(run.train_log, step.to_json())
        last_step, last_sign = step.step, max(step.time, last_sign or 0.0)
    log_event(run, "lost", reason=lost.reason, noticed_by=noticed_by, step=last_step)
    now = time.time()
    clock = format_time(now, with_seconds=True)
    reason = f"{lost.reason}; noticed by {noticed_by} at {clock}"
    # As far as is known, the run ended with its last heartbeat or step.
    ended = last_sign or now
    write_end(run, lost.evolve(reason=reason, waiting_for=None, step=last_step, ended=ended))


def _unwritten(run: Run, attempt: Attempt) -> Iterator[Step]:
    """Yield the steps that are not yet in the history, dated by the trainer's last line."""
    manifest = run.read_manifest()
    steps = open_steps(run, attempt, manifest)
    if manifest.is_command:
        if steps.is_of_attempt:
            yield from steps.new_steps()
        return
    written = list(read_steps(run.train_log))
    of_attempt = {step.step for step in written if step.attempt == attempt.number}
    before = max((step.step for step in written if step.attempt < attempt.number), default=-1)
    for step in steps.new_steps():
        if step.step not in of_attempt:
            logged = attempt.metrics.stat().st_mtime
            yield replace(step, time=logged, redone=step.step <= before)
