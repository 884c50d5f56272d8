"""Runs that wait for another run or for their turn, without a central process.

Every queued run has its own supervisor, and all supervisors read the same files: ``queue.jsonl`` of
the runs directory (in which order runs joined, how each ended, releases) and the states of the
runs. The order is that of the lines, which no clock can change. Only the first queued run may
start, and it stays the first until its own state file says that it has started and with which GPUs.
So no two runs take the same turn, and no lock is needed: a network file system may have no locks,
and a stopped process may never release one.

Only records of this boot of this machine count: a queue does not outlive its supervisors, and other
hosts that share the directory have their own queues.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct, structs

from engine.base import jsonl
from engine.base.follow import Tail
from engine.base.typed import Line, Number, decode_record
from engine.run.host import gpus
from engine.run.host.gpus import Device
from engine.run.host.programs import own_module
from engine.run.host.system import open_gpus
from engine.run.manifest import Ticket
from engine.run.processes import boot_id
from engine.run.registry import ActiveRuns
from engine.run.run import Run
from engine.run.state import RunState, StateName, readable_state, this_host
from engine.run.trust import is_neighbor
from engine.supervise.hosts import find_host

_JOIN_PATIENCE_S = 2.0
"""Joining is repeated, and between attempts the run records what it waits for."""


class _Logged(Struct, frozen=True):
    """A line of the file, of a run that joins or ends, or of a release. ``ran_s`` are the seconds
    since the trainer of the run started."""

    event: str
    boot: str
    run: Line = ""
    state: str = ""
    ran_s: Number = 0.0
    limit_s: Number = 0.0
    stepped: bool = False

    @property
    def is_early(self) -> bool:
        return self.ran_s <= self.limit_s

    @property
    def failed_fast(self) -> bool:
        return self.state == "failed" and (self.is_early or not self.stepped)


class QueueLog:
    """Follows the file. ``places`` are line numbers by run ID; the last one of an ID counts."""

    def __init__(self, root: Path) -> None:
        self.places: dict[str, int] = {}
        self._tail = Tail(log_path(root))
        self._boot = boot_id()
        self._line = 0
        self._ends: deque[_Logged] = deque(maxlen=2)
        self._end_line = 0
        """The line of the last one."""

    def refresh(self) -> None:
        """Read the lines that were appended since the last call."""
        for line in self._tail.lines():
            record = decode_record(line, _Logged)
            self._line += 1
            if record is not None and record.boot == self._boot:
                self._take(record)

    def in_order(self, runs: Collection[str]) -> list[str]:
        """The runs by place. A run without a readable place is first, so all others wait for it."""
        return sorted(runs, key=lambda run: (self.places.get(run, -1), run))

    def ahead(self, run: str, waiting: Collection[str]) -> list[str]:
        """Those of the ``waiting`` runs that come before ``run``, in order."""
        line = self.places[run]
        return self.in_order([name for name in waiting if self.places.get(name, -1) < line])

    def hold(self, run: str) -> str | None:
        """Why the queue is held for ``run``, or None.

        Two fast failures in a row hold the runs that were queued then, not those that join later.
        """
        if len(self._ends) < 2 or not all(end.failed_fast for end in self._ends):
            return None
        if self.places.get(run, 0) > self._end_line:
            return None
        early = all(end.is_early for end in self._ends)
        limit = f"within {max(end.limit_s for end in self._ends):g} s of their start"
        period = limit if early else f"{limit} or before their first step"
        names = " and ".join(end.run for end in self._ends)
        return (
            f"held: runs {names} failed {period}. Release the queue: grubrics-tui queue --release"
        )

    def _take(self, record: _Logged) -> None:
        if record.event == "release":
            self._ends.clear()
        elif record.event == "join" and record.run:
            self.places[record.run] = self._line
        elif record.event == "end" and record.run:
            self._ends.append(record)
            self._end_line = self._line


def log_path(root: Path) -> Path:
    """The queue's file: the common one in a directory that a group shares, else this user's own if
    another user created the common one."""
    shared = root / "queue.jsonl"
    try:
        status = shared.lstat()
    except OSError:
        return shared
    usable = stat.S_ISREG(status.st_mode) and os.access(shared, os.R_OK | os.W_OK)
    is_ours = usable and (status.st_uid == os.geteuid() or is_neighbor(str(shared)))
    return shared if is_ours else root / f"queue-{os.geteuid()}.jsonl"


def join(root: Path, run: str) -> None:
    """Take the last place. OSError if it cannot be written, or after 2 s if the file is locked."""
    path = log_path(root)
    jsonl.append(path, _record("join", run=run), _JOIN_PATIENCE_S)
    folder, file = root.stat(), path.stat()
    # Every member of the group that shares the folder joins the same queue.
    if folder.st_mode & 0o022 == 0o020 and file.st_uid == os.geteuid():
        path.chmod(file.st_mode & 0o777 | 0o060)


def release(root: Path) -> None:
    """Release a queue that failures hold."""
    jsonl.append(log_path(root), _record("release"))


def end_record(
    run: str, state: StateName, ran_s: float, limit_s: float, stepped: bool
) -> dict[str, object]:
    """The record of the end of a queued run, ``ran_s`` seconds after its trainer started."""
    return _record("end", run=run, state=state, ran_s=ran_s, limit_s=limit_s, stepped=stepped)


def _record(event: str, **details: object) -> dict[str, object]:
    return {"v": 1, "t": time.time(), "boot": boot_id(), "event": event, **details}


_SHOWN = 3
_EXAMINATION_S = 120.0


@dataclass(frozen=True)
class Start:
    """The run may start, on ``gpus``; empty: on those that it sees anyway."""

    gpus: tuple[int, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that restrict the trainer to these GPUs."""
        if not self.gpus:
            return {}
        chosen = ",".join(str(index) for index in self.gpus)
        # By default CUDA numbers GPUs by speed, nvidia-smi by bus.
        return {"CUDA_VISIBLE_DEVICES": chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True)
class Wait:
    """The run has to wait; ``held`` says why the queue is held, if it is."""

    waiting_for: str | None
    held: str | None = None


@dataclass(frozen=True)
class Never:
    """The run will not start."""

    reason: str


class QueuePlace:
    """A run's place in the queue of its runs directory. The constructor takes the last place."""

    def __init__(
        self, run: Run, ticket: Ticket, devices: Callable[[], Sequence[Device]] | None = None
    ) -> None:
        self._id, self._root, self._ticket = run.id, run.path.parent, ticket
        self._after = ticket.after
        self._log = QueueLog(self._root)
        self._active = ActiveRuns(self._root)
        self._devices = devices or partial(gpus.read_devices, open_gpus() if ticket.gpus else [])
        self._joined = False
        with contextlib.suppress(OSError):
            self._join()

    def decide(self) -> Start | Wait | Never:
        """Whether the run may start now. It waits for files that cannot be used."""
        try:
            self._join()
            obstacle = self._check_predecessor()
            if obstacle is not None:
                return obstacle
            return self._check_turn() if self._ticket.turn else Start()
        except OSError as error:
            return Wait(f"{error.filename or self._root} to be usable: {error.strerror}")

    def _join(self) -> None:
        if not self._joined:
            join(self._root, self._id)
            self._joined = True

    def _check_predecessor(self) -> Wait | Never | None:
        if self._after is None:
            return None
        run = Run(self._root / self._after)
        state = readable_state(run)
        if not state.has_ended:
            return Wait(_phrase(self._after, state))
        if not (state.went_well or find_host(run).has_unknown_end()):
            return Never(f"not started: {end_phrase(self._after, state)}"[:300])
        # It stays finished, even if its folder is moved during the wait for the turn.
        self._after = None
        return None

    def _check_turn(self) -> Start | Wait:
        active = {n: s for n, s in self._active.read().items() if n != self._id and _is_local(s)}
        self._log.refresh()
        if self._id not in self._log.places:
            return Wait("its place in the queue")
        if held := self._log.hold(self._id):
            return Wait(None, held)
        if ahead := self._log.ahead(self._id, self._queued(active)):
            count = f"{len(ahead)} run{'s' if len(ahead) != 1 else ''} ahead"
            return Wait(f"its turn: {count} ({_join_names(ahead)})")
        busy = {
            name: state
            for name, state in active.items()
            if state.state != "queued" and not Run(self._root / name).follows_files
        }
        return self._check_resources(busy)

    def _queued(self, states: Mapping[str, RunState]) -> list[str]:
        """Return the queued runs.

        A run whose supervisor has not started yet will join behind all others. A run of another
        user may be in another queue.
        """
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

    def _check_resources(self, busy: Mapping[str, RunState]) -> Start | Wait:
        if self._ticket.gpus:
            claims = {name: state.gpus for name, state in busy.items() if state.gpus is not None}
            allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
            chosen = gpus.choose(self._ticket.gpus, self._devices(), claims, allowed)
            return Wait(chosen.message) if isinstance(chosen, gpus.Shortage) else Start(chosen)
        if busy:
            phrases = [_phrase(*item) for item in sorted(busy.items())]
            return Wait(f"its turn: {_join_names(phrases)}")
        return Start()


DoctorCommand = Callable[[Run], Sequence[str]]


def doctor_command(run: Run) -> Sequence[str]:
    """The command that prints ``unhealthy: ...`` for a run that finished with alerts.

    The doctor needs numpy, which the supervisor never imports.
    """
    return own_module("engine.doctor.health", str(run.path))


@dataclass(frozen=True)
class Examination:
    """The process that examines a run."""

    run: Run
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    deadline: float

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self.deadline

    def complaint(self) -> str | None:
        """``run 'a' finished, but is unhealthy: ...``; None for a healthy run."""
        if self.process.poll() is None:
            return f"the doctor did not examine run '{self.run.id}' within {_EXAMINATION_S:.0f} s"
        if self.process.returncode != 0:
            lines = _read_text(self.errors).splitlines()
            cause = lines[-1] if lines else f"exit code {self.process.returncode}"
            return f"the doctor could not examine run '{self.run.id}': {jsonl.line(cause)}"
        health = jsonl.line(_read_text(self.output))
        if not health:
            return None
        return f"run '{self.run.id}' finished, but is {health}; this run follows it"


@contextlib.contextmanager
def examine(run: Run, command: DoctorCommand = doctor_command) -> Iterator[Examination]:
    """Start an examination; leaving the context ends it. OSError if it cannot be started."""
    # Files, not pipes: the process would block on a full pipe that nothing reads.
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = subprocess.Popen(
            command(run), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            yield Examination(run, process, output, errors, time.monotonic() + _EXAMINATION_S)
        finally:
            process.kill()
            process.wait()


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def _is_local(state: RunState) -> bool:
    """Whether a run is on this machine; other hosts that share the directory have own queues."""
    return state.host in (None, this_host())


@dataclass(frozen=True)
class Waiting:
    """A queued run, as last recorded by its supervisor, with its ticket."""

    id: str
    waiting_for: str | None
    reason: str | None
    after: str | None
    turn: bool
    gpus: int
    joined: float

    @property
    def phrase(self) -> str:
        """What it waits for."""
        return self.reason or self.waiting_for or "its place in the queue"


@dataclass(frozen=True)
class Queue:
    """The queued runs in order. ``held`` says why none of them starts, if the queue is held."""

    runs: Sequence[Waiting]
    held: str | None


def line_up(root: Path) -> Queue:
    """Read the queue of this machine in a runs directory."""
    log, active = QueueLog(root), ActiveRuns(root).read().items()
    log.refresh()
    queued = {name: state for name, state in active if state.state == "queued" and _is_local(state)}
    runs = [_waiting(Run(root / name), queued[name]) for name in log.in_order(queued)]
    holds = (log.hold(run.id) for run in runs if run.turn)
    return Queue(runs, next(filter(None, holds), None))


def _waiting(run: Run, state: RunState) -> Waiting:
    ticket = run.read_manifest().queue or Ticket()
    return Waiting(run.id, state.waiting_for, state.reason, **structs.asdict(ticket))


def _phrase(name: str, state: RunState) -> str:
    """E.g. ``run a (running, step 3 of 60)``."""
    step = "" if state.step is None else f", step {state.step}"
    total = f" of {state.total_steps}" if step and state.total_steps is not None else ""
    return f"run {name} ({state.state}{step}{total})"


def end_phrase(name: str, state: RunState) -> str:
    """How a run ended before its last step."""
    if state.state == "finished":
        return f"run '{name}' was {state.reason}"
    verb = "is lost" if state.state == "lost" else "failed"
    return f"run '{name}' {verb}: {state.reason}" if state.reason else f"run '{name}' {verb}"


def _join_names(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + suffix
