"""Runs that wait for another run or for their turn. Nobody directs them.

Every waiting run has its own supervisor, and all of them read the same files: ``queue.jsonl`` of
the runs folder and the states of the runs. Its order is the order of its lines, which no clock can
change. Only the first that still waits may start, and it is the first until its own state file
says that it has started and with which GPUs. So no two can take the same turn, and nobody has to
hold a lock, which a network file system may not have and a stopped process may never give back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.host import gpus
from engine.host.gpus import Device
from engine.host.system import open_gpus
from engine.runs.registry import ActiveRuns
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, settled_state, this_host
from engine.supervise.queue_log import QueueLog, join

_SHOWN = 3


@dataclass(frozen=True)
class Ticket:
    """What a run waits for: ``queue`` in its manifest.

    ``after`` is a run that has to finish first, ``turn`` whether it also waits until all that
    joined before it have started and ``gpus`` GPUs are free (0: until no other run is active).
    """

    after: str | None = None
    turn: bool = False
    gpus: int = 0
    joined: float = 0.0

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Ticket | None:
        raw = manifest.get("queue")
        if not isinstance(raw, dict):
            return None
        count, joined = jsonl.integer(raw.get("gpus")), jsonl.moment(raw.get("joined"))
        return cls(jsonl.line(raw.get("after")), bool(raw.get("turn")), count or 0, joined or 0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Start:
    """The run may start. ``gpus`` were chosen for it; empty: those it sees anyway."""

    gpus: tuple[int, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What the trainer's environment needs to see these GPUs and no others."""
        if not self.gpus:
            return {}
        chosen = ",".join(str(index) for index in self.gpus)
        # CUDA counts by speed unless it is told to count like nvidia-smi.
        return {"CUDA_VISIBLE_DEVICES": chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True)
class Wait:
    """The run has to wait; ``held`` says why the queue has stopped, when it has."""

    waiting_for: str | None
    held: str | None = None


@dataclass(frozen=True)
class Never:
    """The run will not start."""

    reason: str


class Place:
    """A run's place in the queue of its runs folder: the last one, taken when this is made."""

    def __init__(
        self, run: RunDir, ticket: Ticket, devices: Callable[[], Sequence[Device]] | None = None
    ) -> None:
        self._id, self._root, self._ticket = run.id, run.path.parent, ticket
        self._after = ticket.after
        self._log = QueueLog(self._root)
        self._active = ActiveRuns(self._root)
        self._devices = devices or partial(gpus.look, open_gpus() if ticket.gpus else [])
        self._joined = False
        with contextlib.suppress(OSError):
            self._join()

    def look(self) -> Start | Wait | Never:
        """Whether the run may start now. Files that cannot be used are something to wait for."""
        try:
            self._join()
            obstacle = self._before()
            if obstacle is not None:
                return obstacle
            return self._turn() if self._ticket.turn else Start()
        except OSError as error:
            return Wait(f"{error.filename or self._root} to be usable: {error.strerror}")

    def _join(self) -> None:
        if not self._joined:
            join(self._root, self._id)
            self._joined = True

    def _before(self) -> Wait | Never | None:
        if self._after is None:
            return None
        state = settled_state(RunDir(self._root / self._after))
        if not state.has_ended:
            return Wait(_phrase(self._after, state))
        if not state.went_well:
            return Never(f"not started: {end_phrase(self._after, state)}"[:300])
        # It has finished for good, though its folder may be moved while we wait for our turn.
        self._after = None
        return None

    def _turn(self) -> Start | Wait:
        others = {n: s for n, s in self._active.look().items() if n != self._id and _is_here(s)}
        self._log.refresh()
        if self._id not in self._log.places:
            return Wait("its place in the queue")
        if held := self._log.hold(self._id):
            return Wait(None, held)
        if ahead := self._log.ahead(self._id, self._waiting(others)):
            count = f"{len(ahead)} run{'s' if len(ahead) != 1 else ''} ahead"
            return Wait(f"its turn: {count} ({_some(ahead)})")
        busy = {name: state for name, state in others.items() if state.state != "queued"}
        return self._resources(busy)

    def _waiting(self, states: Mapping[str, RunState]) -> list[str]:
        """The runs that wait. One whose supervisor has not come yet will join behind everybody, and
        another user's may have joined a queue that this one does not know."""
        return [
            name
            for name, state in states.items()
            if state.state == "queued"
            and (name in self._log.places or (state.supervisor is not None and self._is_own(name)))
        ]

    def _is_own(self, name: str) -> bool:
        try:
            return (self._root / name).stat().st_uid == os.geteuid()
        except OSError:
            return False

    def _resources(self, busy: Mapping[str, RunState]) -> Start | Wait:
        if self._ticket.gpus:
            claims = {name: state.gpus for name, state in busy.items() if state.gpus is not None}
            allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
            found = gpus.choose(self._ticket.gpus, self._devices(), claims, allowed)
            return Wait(found.message) if isinstance(found, gpus.Shortage) else Start(found)
        if busy:
            return Wait(f"its turn: {_some([_phrase(*item) for item in sorted(busy.items())])}")
        return Start()


def _is_here(state: RunState) -> bool:
    """Whether a run is on this machine; other hosts that share the folder have their own queue."""
    return state.host in (None, this_host())


@dataclass(frozen=True)
class Waiting:
    """A run in the queue, as its supervisor last said."""

    id: str
    waiting_for: str | None
    reason: str | None
    ticket: Ticket

    @property
    def phrase(self) -> str:
        """What it waits for."""
        return self.reason or self.waiting_for or "its place in the queue"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "waiting_for": self.waiting_for,
            "reason": self.reason,
            **self.ticket.to_json(),
        }


@dataclass(frozen=True)
class Line:
    """The runs that wait, first in line first. ``held`` says why none of them starts, if so."""

    runs: Sequence[Waiting]
    held: str | None

    def to_json(self) -> dict[str, Any]:
        return {"runs": [run.to_json() for run in self.runs], "held": self.held}


def line_up(root: Path) -> Line:
    """The queue of this machine in a runs folder."""
    log, active = QueueLog(root), ActiveRuns(root).look().items()
    log.refresh()
    queued = {name: state for name, state in active if state.state == "queued" and _is_here(state)}
    runs = [_waiting(root, name, queued[name]) for name in log.in_order(queued)]
    held = next((why for run in runs if run.ticket.turn and (why := log.hold(run.id))), None)
    return Line(runs, held)


def _waiting(root: Path, name: str, state: RunState) -> Waiting:
    ticket = Ticket.from_manifest(RunDir(root / name).read_manifest()) or Ticket()
    return Waiting(name, state.waiting_for, state.reason, ticket)


def _phrase(name: str, state: RunState) -> str:
    """E.g. ``run a (running, step 3 of 60)``."""
    step = "" if state.step is None else f", step {state.step}"
    total = f" of {state.total_steps}" if step and state.total_steps is not None else ""
    return f"run {name} ({state.state}{step}{total})"


def end_phrase(name: str, state: RunState) -> str:
    """How a run ended that did not do every step."""
    if state.state == "finished":
        return f"run '{name}' was {state.reason}"
    verb = "is lost" if state.state == "lost" else "failed"
    return f"run '{name}' {verb}: {state.reason}" if state.reason else f"run '{name}' {verb}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
