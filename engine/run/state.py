"""The state of a run: written by its supervisor, checked against processes by every reader."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from engine.base import files, jsonl, typed
from engine.base.masking import mask_data
from engine.base.quantities import format_time
from engine.base.typed import Integer, Line, Moment, Number
from engine.run.identity import Identity
from engine.run.marks import read_environment, supervises
from engine.run.processes import alive, boot_id
from engine.run.run import SUPERVISES_VARIABLE, Run

StateName = Literal[
    "queued", "starting", "running", "stalled", "stopping", "finished", "failed", "lost", "external"
]

_STARTUP_S = 60.0
"""A supervisor takes over within seconds of the run's first state."""
_SILENCE_S = 60.0
"""A supervisor writes every two seconds; a dump of stacks may keep it from that for twenty."""
_PIDS_OF_THE_MACHINE = 0xEFFFFFFC
"""Linux's number for the process namespace outside of all containers."""
_REWRITE_S = 3.0
"""A live supervisor has replaced a broken state file after this."""

ENDED: frozenset[str] = frozenset({"finished", "failed", "lost"})

Phrase = Annotated[Line, Meta(max_length=2000)]
"""The list keeps it for every run."""


class RunState(Struct, frozen=True):
    """One moment of a run, as ``state.json`` holds it. ``step`` is the last one logged."""

    state: StateName
    reason: Phrase | None = None
    waiting_for: Phrase | None = None
    attempt: Annotated[int, Meta(ge=1, le=2**53)] = 1
    trainer: Identity | None = None
    supervisor: Identity | None = None
    heartbeat: Moment | None = None
    beat: Number | None = None
    """The heartbeat in seconds since the machine started: no jump of its clock moves it."""
    host: Line | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: Integer | None = None
    signal: Line | None = None
    step: Integer | None = None
    total_steps: Integer | None = None
    gpus: Line | None = None
    """The GPUs it may use, as CUDA_VISIBLE_DEVICES has them, or ``all``; None: it uses none."""
    ran_before: Number | None = None
    """Seconds that the attempts before this one took."""
    began: Moment | None = None
    """When the first attempt started, where this is a later one."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def went_well(self) -> bool:
        """Whether the run did every step; one that was stopped did not."""
        return self.state == "finished" and not (self.reason or "").startswith("stopped by ")

    @property
    def word(self) -> str:
        """The displayed state: ``stopped`` for a run that was ended early."""
        if self.state == "lost" and (self.reason or "").startswith(UNREADABLE_WORD):
            return UNREADABLE_WORD
        return STOPPED if self.state == "finished" and not self.went_well else self.state

    @property
    def first_start(self) -> float | None:
        """When the run started, whichever attempt it is in; ``started`` is the attempt's time."""
        return self.began or self.started

    def elapsed(self, now: float) -> float | None:
        """Seconds that all attempts took, up to ``now`` for an active run.

        The pauses between attempts do not count. None for a run that has not started.
        """
        if self.started is None:
            return self.ran_before
        last_sign = self.heartbeat if self.state == "lost" else None
        return (self.ran_before or 0.0) + max(0.0, (self.ended or last_sign or now) - self.started)

    def evolve(self, **changes: object) -> RunState:
        return msgspec.structs.replace(self, **changes)


STOPPED = "stopped"
"""What lists and filters call a run that is ``finished`` because it was stopped."""

UNREADABLE_WORD = "unreadable"
"""What they call a run whose state cannot be read: whether it ended is not known."""

EXTERNAL: StateName = "external"
"""The state of a run of another trainer, which no supervisor writes."""

GROWING = "growing"
"""The reason of an external run whose files have grown recently."""

UNREADABLE = RunState("lost", reason=f"{UNREADABLE_WORD}: no valid state.json")


def write_state(run: Run, state: RunState) -> None:
    """Replace ``state.json``. On a full disk write over it: that needs no room."""
    value = mask_data({"v": 1, **typed.to_json(state)})
    try:
        jsonl.write_json(run.state_file, value)
    except IsADirectoryError:
        run.state_file.rename(run.state_file.with_name(f"state.json.moved-{time.time_ns()}"))
        jsonl.write_json(run.state_file, value)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not run.state_file.exists():
            raise
        jsonl.overwrite_json(run.state_file, value)


def write_end(run: Run, state: RunState) -> None:
    """Write the state of an ended run once what it promises, steps, log and output, is on the disk:
    a power cut leaves no run that has finished without its steps."""
    attempt = run.attempt(state.attempt).path
    if attempt.is_dir() and not attempt.is_symlink():
        files.sync_folder(attempt)
    files.sync_folder(run.path)
    write_state(run, state)
    # The end is written. Without this, a power cut may leave the run lost: no reason to stay.
    with suppress(OSError):
        files.sync_folder(run.path, with_files=False)


def this_host() -> str:
    """This machine or container: processes of another one are not visible from here."""
    name = os.uname().nodename
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return name
    return name if namespace == _PIDS_OF_THE_MACHINE else f"{name} (container {namespace})"


def recorded_state(run: Run) -> RunState | None:
    """``state.json`` as written, or None if it is missing or unreadable."""
    state = typed.read_record(run.state_file, RunState)
    return None if state is None or state.state == EXTERNAL else state


def unreadable(run: Run) -> RunState:
    """The state of a run without a readable ``state.json``, and why it has none."""
    try:
        if run.path.is_symlink() and not run.path.exists():
            reason = f"a link to {run.path.readlink()}, which is not there"
        else:
            files.read_regular(run.state_file, jsonl.LARGEST_FILE)
            return UNREADABLE
    except FileNotFoundError:
        reason = "no state.json"
    except OSError as error:
        reason = error.strerror or str(error)
    return RunState("lost", reason=f"{UNREADABLE_WORD}: {jsonl.line(reason)}")


def observed_state(run: Run) -> RunState:
    """The state to display: a run without a heartbeat is never "running"."""
    recorded = recorded_state(run)
    if recorded is None:
        return unreadable(run)
    state = observe(recorded, run)
    if state.state == "lost" and not recorded.has_ended:
        # Its supervisor may have written the final state and exited meanwhile.
        state = observe(recorded_state(run) or recorded, run)
    return state


def readable_state(run: Run) -> RunState:
    """Return the observed state, for commands that act on it: wait for a readable state file.

    A live supervisor replaces a damaged state file within a heartbeat; before that, nothing may be
    ended or started.
    """
    deadline = time.monotonic() + _REWRITE_S
    while recorded_state(run) is None and run.path.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    return observed_state(run)


def observe(state: RunState, run: Run | None = None) -> RunState:
    """A recorded state of ``run``, checked against the processes of this machine.

    A run whose supervisor never started, or died without recording an end, is ``lost``. A run whose
    supervisor is alive but writes nothing is ``stalled``. On another machine, only the heartbeat
    counts.
    """
    if state.has_ended:
        return state
    if state.supervisor is None:
        young = _is_near(state.heartbeat, _STARTUP_S)
        return state if young else state.evolve(state="lost", reason="supervisor did not start")
    try:
        is_supervised = alive(state.supervisor) and (
            run is None or _may_supervise(state.supervisor, run)
        )
    except OSError:  # The system does not say: then the heartbeat decides.
        is_supervised = True
    if is_supervised:
        return _unless_silent(state)
    if state.host not in (None, this_host()) and _is_near(state.heartbeat, _SILENCE_S):
        return state
    if state.state == "queued":
        reason = "supervisor died while the run was queued"
        return state.evolve(state="lost", reason=reason, waiting_for=None)
    quiet = f"last heartbeat {_since(state.heartbeat)}"
    return state.evolve(state="lost", reason=f"{_loss_reason(state)}; {quiet}")


def _may_supervise(process: Identity, run: Run) -> bool:
    """Whether a process is marked as the supervisor of this very run; one without a mark counts if
    it belongs to the owner of the run.

    Anybody can write the pid of any process into the state of a run, and a copy names the
    supervisor of the original.
    """
    try:
        if read_environment(process.pid, SUPERVISES_VARIABLE):
            return supervises(process.pid, run)
        owner, user = run.path.stat().st_uid, os.stat(f"/proc/{process.pid}").st_uid  # noqa: PTH116
    except OSError:
        return True  # It has ended meanwhile: the next read decides.
    return owner == user or supervises(process.pid, run)


def _unless_silent(state: RunState) -> RunState:
    silence = 0.0 if state.beat is None else time.monotonic() - state.beat
    if silence <= _SILENCE_S:
        return state
    reason = f"no heartbeat of the supervisor for {silence:.0f} s"
    if state.state == "queued":
        return state.evolve(reason=reason)
    return state.evolve(state="stalled", reason=reason)


def _loss_reason(state: RunState) -> str:
    assert state.supervisor is not None
    if state.host not in (None, this_host()):
        return f"no heartbeat from its supervisor on {state.host}"
    if state.supervisor.boot != boot_id():
        return "the machine was restarted"
    return "supervisor died"


def _is_near(moment: float | None, seconds: float) -> bool:
    """Whether a time is about now, or slightly in the future after a change of the clock."""
    return moment is not None and abs(time.time() - moment) < seconds


def _since(moment: float | None) -> str:
    if moment is None:
        return "never"
    return f"at {format_time(moment, with_seconds=True)}"


def describe(state: RunState) -> str:
    """State and reason in one phrase, e.g. ``failed: exit code 1 at step 3 of 20``."""
    detail = state.reason or state.waiting_for
    if state.word in (STOPPED, UNREADABLE_WORD):
        return cast(str, detail)
    return f"{state.word}: {detail}" if detail else state.word
