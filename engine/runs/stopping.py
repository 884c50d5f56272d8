"""Stopping a run from outside: ask its supervisor, wait until nothing of the run is left."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from engine.runs.processes import members
from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import describe, observed_state

_LONGEST_S = 60.0


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

    Stopping a run that has ended does nothing and says so.
    """
    state = observed_state(run)
    pids = [process.pid for process in members(run)]
    if not state.has_ended:
        ask_stop(run, after_checkpoint=after_checkpoint)
        if not after_checkpoint:
            _await_end(run)
    state = observed_state(run)
    return Stopped(
        run.id, state.has_ended, state.state, state.reason, pids, f"{run.id}  {describe(state)}"
    )


def _await_end(run: RunDir) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        if observed_state(run).has_ended:
            return
        time.sleep(0.1)
