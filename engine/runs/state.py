"""What a run is doing: written by its supervisor, judged by whoever reads it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from engine import jsonl
from engine.runs.processes import Identity, alive
from engine.runs.rundir import RunDir

StateName = Literal[
    "queued", "starting", "running", "stalled", "stopping", "finished", "failed", "lost"
]

_STARTUP_S = 60.0
"""A supervisor takes over within seconds of the run's first state."""

ENDED: frozenset[str] = frozenset({"finished", "failed", "lost"})


@dataclass(frozen=True)
class RunState:
    """One moment of a run. Times are Unix seconds; ``step`` is the last one logged."""

    state: StateName
    reason: str | None = None
    waiting_for: str | None = None
    attempt: int = 1
    trainer: Identity | None = None
    supervisor: Identity | None = None
    heartbeat: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    step: int | None = None
    total_steps: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def evolve(self, **changes: Any) -> RunState:
        return dataclasses.replace(self, **changes)


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "reason": jsonl.line,
    "waiting_for": jsonl.line,
    "trainer": Identity.from_json,
    "supervisor": Identity.from_json,
    "heartbeat": jsonl.moment,
    "started": jsonl.moment,
    "ended": jsonl.moment,
    "exit_code": jsonl.integer,
    "signal": jsonl.line,
    "step": jsonl.integer,
    "total_steps": jsonl.integer,
}

UNREADABLE = RunState("lost", reason="no readable state.json")


def write_state(run: RunDir, state: RunState) -> None:
    """Replace ``state.json``."""
    jsonl.write_json(run.state, {"v": 1, **dataclasses.asdict(state)})


def recorded_state(run: RunDir) -> RunState | None:
    """``state.json`` as it stands, or None when it is missing or not readable."""
    return state_from_json(jsonl.read_json(run.state))


def state_from_json(raw: Mapping[str, Any] | None) -> RunState | None:
    """A state as ``write_state`` wrote it; None when ``raw`` is something else.

    Unknown keys are skipped, and a field of the wrong type counts as missing. Texts are safe to
    show.
    """
    if raw is None or raw.get("state") not in get_args(StateName):
        return None
    values = {key: read(raw.get(key)) for key, read in _FIELDS.items()}
    return RunState(raw["state"], attempt=jsonl.integer(raw.get("attempt")) or 1, **values)


def observed_state(run: RunDir) -> RunState:
    """The state a person should be told: silence is never "running"."""
    state = recorded_state(run)
    return UNREADABLE if state is None else observe(state)


def observe(state: RunState) -> RunState:
    """A recorded state, checked against the processes of this machine.

    A run whose supervisor never came, or is gone without having said how the run ended, is
    ``lost``.
    """
    if state.has_ended:
        return state
    if state.supervisor is None:
        young = time.time() - (state.heartbeat or 0.0) < _STARTUP_S
        return state if young else state.evolve(state="lost", reason="its supervisor never started")
    if alive(state.supervisor):
        return state
    quiet = _since(state.heartbeat)
    return state.evolve(state="lost", reason=f"its supervisor is gone; last sign of life {quiet}")


def _since(moment: float | None) -> str:
    if moment is None:
        return "never"
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    return f"at {clock}"


def describe(state: RunState) -> str:
    """State and reason in one phrase, e.g. ``failed: exit code 1 at step 3 of 20``."""
    detail = state.reason or state.waiting_for
    return f"{state.state}: {detail}" if detail else cast(str, state.state)
