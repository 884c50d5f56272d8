"""Stop a run: send a request, wait for the supervisor, end remaining processes, finalize."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.run.events import ask_stop
from engine.run.marks import supervises
from engine.run.processes import end_members, members, send
from engine.run.run import Run
from engine.run.state import RunState, describe, observed_state, readable_state, this_host
from engine.run.trust import require
from engine.supervise import private_ray
from engine.supervise.finalize import finalize_if_lost
from engine.supervise.hosts import find_host
from engine.supervise.milestones import next_save
from engine.supervise.stall import Supervision


class Escalation:
    """SIGINT, SIGTERM, SIGKILL, each after the patience of the previous one."""

    def __init__(
        self,
        send: Callable[[signal.Signals], None],
        supervision: Supervision,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._now = now
        self._pending = [
            (signal.SIGINT, supervision.interrupt_patience_s),
            (signal.SIGTERM, supervision.terminate_patience_s),
            (signal.SIGKILL, 0.0),
        ]
        self._due = 0.0

    def tick(self) -> None:
        """Send the next signal when it is due."""
        if self._pending and self._now() >= self._due:
            number, patience = self._pending.pop(0)
            self._send(number)
            # The patience starts when the signal has been sent, however long that took.
            self._due = self._now() + patience


_MARGIN_S = 40.0
_PATIENCE_S = 10.0
_SILENCE_S = 25.0
"""A supervisor writes every 2 s; dumping stacks may delay it by 20 s."""


@dataclass(frozen=True)
class Stopped:
    """The result of a stop. ``pids`` are the run's processes at the time of the request."""

    run: str
    ended: bool
    state: str
    reason: str | None
    pids: list[int]
    message: str


def stop_run(run: Run, *, after_checkpoint: bool = False, detach: bool = False) -> Stopped:
    """Stop a run; with ``after_checkpoint`` only write the request, and return at once.

    ``detach`` ends the supervision of an adopted run and leaves its program running. For a run that
    has ended, end its remaining processes: a lost run has no supervisor to do it. UsageError for a
    run that is not trusted, where ``after_checkpoint`` cannot be known, where no process of an
    adopted run is known, and to detach another run.
    """
    require(run)
    host = find_host(run)
    host.require_stoppable(detach=detach)
    if after_checkpoint and run.is_command:
        raise UsageError(
            f"run '{run.id}' executes a command, whose checkpoints are not known. Stop it now: "
            f"grubrics-tui stop {run.id}"
        )
    state, processes = readable_state(run), members(run)
    if not state.has_ended:
        try:
            ask_stop(run, after_checkpoint=after_checkpoint, detach=detach)
        except OSError:
            # A full disk takes no request, but a signal to the supervisor stops the run too.
            if after_checkpoint or not _signal(run, state, signal.SIGTERM):
                raise
        _signal(run, state, signal.SIGCONT)  # A frozen supervisor (SIGSTOP) cannot obey.
        if not after_checkpoint and not _await_end(run):
            # The supervisor does not react, e.g. stuck on a file system.
            end_members(run, _PATIENCE_S)
    else:
        end_members(run, _PATIENCE_S)
    finalize_if_lost(run, "stop")
    if detach:
        host.leave()
    state = observed_state(run)
    left = host.stop_left() if state.has_ended else None
    ended = state.has_ended and not members(run) and left is None
    if ended:
        private_ray.remove_all(run)
    pids = [process.pid for process in processes]
    message = f"{run.id}  {describe(state)}" + (f"; {left}" if left else "")
    if after_checkpoint and not ended:
        when = next_save(run.read_full_manifest()).after(state.step)
        message = f"{run.id}  {state.state}: stops {when}"
    return Stopped(run.id, ended, state.word, state.reason, pids, message)


def _signal(run: Run, state: RunState, number: signal.Signals) -> bool:
    """Signal the run's supervisor; False if the process in the state is not its supervisor."""
    process = state.supervisor
    return process is not None and supervises(process.pid, run) and send(process, number)


def _await_end(run: Run) -> bool:
    """Wait as long as a supervisor with a heartbeat may take. False if the run has not ended."""
    patience = Supervision.of(run.read_full_manifest())
    longest_s = patience.interrupt_patience_s + patience.terminate_patience_s + _MARGIN_S
    deadline = time.monotonic() + longest_s
    beat, changed_at = None, time.monotonic()
    while not (state := observed_state(run)).has_ended and (now := time.monotonic()) < deadline:
        if state.beat != beat:
            beat, changed_at = state.beat, now
        elif now - changed_at > _SILENCE_S and state.host in (None, this_host()):
            return False  # On another machine, a file may take a minute to appear.
        time.sleep(0.1)
    return state.has_ended
