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
from engine.history.train_log import Step, StepJoiner, read_steps
from engine.runs.events import log_event
from engine.runs.processes import members
from engine.runs.rundir import Attempt, RunDir
from engine.runs.state import RunState, observed_state, recorded_state, write_state
from engine.runs.trust import require


@contextlib.contextmanager
def hold_run(run: RunDir) -> Iterator[None]:
    """Lock a run while it is finalized or a new attempt is started.

    UsageError while another process does, and for a run that nothing may be done with. The lock
    dies with its process, so none is ever left behind; a file system without locks is trusted to
    have one user.
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


def settle_if_lost(run: RunDir, noticed_by: str) -> None:
    """``settle``, unless somebody else is at it or the run cannot be written."""
    with contextlib.suppress(UsageError, OSError), hold_run(run):
        settle(run, noticed_by)


def settle(run: RunDir, noticed_by: str) -> None:
    """Finalize a lost run, whose trainer may have kept running for long.

    Its remaining steps join the history, and event and state say who noticed the loss and when.
    Nothing is done for a run that is not lost or has processes left. Needs the run's hold_run.
    """
    recorded = recorded_state(run)
    lost = observed_state(run)
    if recorded is None or recorded.has_ended or lost.state != "lost" or members(run):
        return
    last, heard_of = lost.step, lost.heartbeat
    for step in _unwritten(run, run.attempt(lost.attempt)):
        jsonl.append(run.train_log, step.to_json())
        last, heard_of = step.step, max(step.time, heard_of or 0.0)
    log_event(run, "lost", reason=lost.reason, noticed_by=noticed_by, step=last)
    write_state(run, _closed(lost, last, noticed_by, heard_of))


def _unwritten(run: RunDir, attempt: Attempt) -> Iterator[Step]:
    """The steps that the trainer logged and nobody carried over, dated by its last line."""
    written = list(read_steps(run.train_log))
    own = {step.step for step in written if step.attempt == attempt.number}
    before = max((step.step for step in written if step.attempt < attempt.number), default=-1)
    for step in StepJoiner(attempt).new_steps():
        if step.step not in own:
            logged = attempt.metrics.stat().st_mtime
            yield replace(step, time=logged, redone=step.step <= before)


def _closed(lost: RunState, last: int | None, noticed_by: str, heard_of: float | None) -> RunState:
    """It ended with its last heartbeat, as far as anybody can tell."""
    now = time.time()
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    reason = f"{lost.reason}; noticed by {noticed_by} at {clock}"
    return lost.evolve(reason=reason, waiting_for=None, step=last, ended=heard_of or now)
