"""Stopping a run from outside: ask its supervisor, wait until nothing of the run is left."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from engine.runs.processes import end, members
from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import describe, observed_state

_LONGEST_S = 60.0
_PATIENCE_S = 10.0


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
    """
    state, left = observed_state(run), members(run)
    if not state.has_ended:
        ask_stop(run, after_checkpoint=after_checkpoint)
        if not after_checkpoint:
            _await_end(run)
    elif left:
        end(left, _PATIENCE_S)
    state = observed_state(run)
    ended = state.has_ended and not members(run)
    pids = [process.pid for process in left]
    message = f"{run.id}  {describe(state)}"
    return Stopped(run.id, ended, state.state, state.reason, pids, message)


def _await_end(run: RunDir) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        if observed_state(run).has_ended:
            return
        time.sleep(0.1)
