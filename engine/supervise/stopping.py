"""Stop a run: ask, then signal harder and harder, then finalize what its supervisor left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from engine.runs.events import ask_stop
from engine.runs.marks import supervises
from engine.runs.processes import end_members, members, send
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, describe, observed_state, settled_state, this_host
from engine.runs.trust import require
from engine.supervise import private_ray, ray_jobs
from engine.supervise.settings import Supervision
from engine.supervise.settle_lost import settle_if_lost


class Escalation:
    """SIGINT, SIGTERM, SIGKILL, each after the patience of the one before has run out."""

    def __init__(
        self,
        send: Callable[[signal.Signals], None],
        supervision: Supervision,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._now = now
        self._left = [
            (signal.SIGINT, supervision.interrupt_patience_s),
            (signal.SIGTERM, supervision.terminate_patience_s),
            (signal.SIGKILL, 0.0),
        ]
        self._due = 0.0

    def tick(self) -> None:
        """Send the next signal when it is due."""
        if self._left and self._now() >= self._due:
            number, patience = self._left.pop(0)
            self._send(number)
            # From here: who was slow to send it has not used up any of the patience.
            self._due = self._now() + patience


_MARGIN_S = 40.0
_PATIENCE_S = 10.0
_SILENCE_S = 25.0
"""A supervisor writes every two seconds; a dump of stacks may keep it from that for twenty."""


@dataclass(frozen=True)
class Stopped:
    """What a stop did. ``pids`` were the run's processes when it was asked for."""

    run: str
    ended: bool
    state: str
    reason: str | None
    pids: list[int]
    message: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def stop_run(run: RunDir, *, after_checkpoint: bool = False) -> Stopped:
    """Stop a run; with ``after_checkpoint`` only ask, and return at once.

    Of a run that is over, what it left behind is ended: a lost run has no supervisor to do it.
    UsageError for a run that nothing may be done with.
    """
    require(run)
    state, left = settled_state(run), members(run)
    if not state.has_ended:
        _ask(run, state, after_checkpoint)
        _signal(run, state, signal.SIGCONT)  # A frozen one (SIGSTOP) could not obey.
        if not after_checkpoint and not _await_end(run):
            # A supervisor that does nothing (stuck on a file system) is not waited for.
            end_members(run, _PATIENCE_S)
    else:
        end_members(run, _PATIENCE_S)
    settle_if_lost(run, "stop")
    state = observed_state(run)
    elsewhere = _end_elsewhere(run) if state.has_ended else None
    ended = state.has_ended and not members(run) and elsewhere is None
    if ended:
        private_ray.remove_all(run)
    pids = [process.pid for process in left]
    message = f"{run.id}  {describe(state)}" + (f"; {elsewhere}" if elsewhere else "")
    if after_checkpoint and not ended:
        message = f"{run.id}  {state.state}: stops after the next checkpoint"
    return Stopped(run.id, ended, state.state, state.reason, pids, message)


def _ask(run: RunDir, state: RunState, after_checkpoint: bool) -> None:
    try:
        ask_stop(run, after_checkpoint=after_checkpoint)
    except OSError:
        # Where no request can be written (a full disk), the supervisor still takes a signal.
        if after_checkpoint or not _signal(run, state, signal.SIGTERM):
            raise


def _signal(run: RunDir, state: RunState, number: signal.Signals) -> bool:
    """Signal the run's supervisor; False when the process that the state names is not it."""
    named = state.supervisor
    return named is not None and supervises(named.pid, run) and send(named, number)


def _end_elsewhere(run: RunDir) -> str | None:
    """Stop the job that a lost run left on a Ray cluster; what is still there, or None."""
    if ray_jobs.left_on_cluster(run) is None:
        return None
    ray_jobs.stop_left(run)
    return ray_jobs.left_on_cluster(run)


def _await_end(run: RunDir) -> bool:
    """Wait as long as the supervisor may take, while it gives signs of life.

    False when the run has not ended then.
    """
    patience = Supervision.from_manifest(run.read_manifest())
    longest_s = patience.interrupt_patience_s + patience.terminate_patience_s + _MARGIN_S
    deadline = time.monotonic() + longest_s
    beat, heard_of = None, time.monotonic()
    while not (state := observed_state(run)).has_ended and (now := time.monotonic()) < deadline:
        if state.beat != beat:
            beat, heard_of = state.beat, now
        elif now - heard_of > _SILENCE_S and state.host in (None, this_host()):
            return False  # Of another machine's files, news may take a minute.
        time.sleep(0.1)
    return state.has_ended
