"""Where a run that has stopped getting anywhere hangs: which process, its state, its place.

A process that the kernel holds (stopped, in a disk sleep, a zombie) explains the silence by
itself. Else the stacks tell: who runs at full speed, and who waits for what.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from engine.base import files
from engine.run.identity import Identity
from engine.run.processes import every_parent, stat_of

Kind = Literal["stopped", "disk", "zombie", "spinning", "judge", "code", "waiting"]

_HELD: dict[str, tuple[Kind, str]] = {
    "T": ("stopped", "is stopped (state T)"),
    "t": ("stopped", "is stopped by a debugger (state t)"),
    "D": ("disk", "waits for a disk or a file system (state D)"),
    "Z": ("zombie", "has exited but was not collected (state Z)"),
}
_SPINNING = 0.9
_APART_S = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_STUB = "zygote_client"
_SERVICES = re.compile(
    r"raylet|gcs_server|/ray/(?:dashboard|_private|autoscaler)/|ray::(?:IDLE|\w*Agent\b)|log_monitor"
    r"|engine\.train\.zygote\b|resource_tracker|forkserver|wandb-core"
    r"|ray::(?:TransferQueueController|SimpleStorageUnit|GlobalRequestLoadBalancer)"
)
_COORDINATES = re.compile(r"driver|TaskRunner|train$")
"""These wait for all others: they are looked at last."""
_SCORES = re.compile(r"Reward|AgentLoop|Judge")
_TITLE = re.compile(r"ray::(\w+)")
_LIBRARY = re.compile(
    r"(?:^|/)(?:ray|asyncio|concurrent|threading\.py|multiprocessing|selectors\.py|queue\.py"
    r"|socket\.py|ssl\.py|subprocess\.py|uvloop|grpc|zmq|runpy\.py|<frozen|zygote_client\.py"
    r"|zygote\.py|default_worker\.py|contextlib\.py|signal\.py|transfer_queue"
    r"|reward/own/wire\.py)(?:[/:]|$)"
)
_JUDGE = re.compile(
    r"[/(](?:openai|httpx|httpcore|litellm|aiohttp|anthropic|engine/reward/judge|rubrics/judge)/"
)
_REMOTE = re.compile(
    r"(?:^|/)(?:ray|asyncio|uvloop|transfer_queue|zmq|grpc|zygote_client\.py|reward/own/wire\.py)"
    r"(?:[/:]|$)"
)
"""Whoever waits here is held up by another process, or has nothing to do."""
_RAY_WAIT = re.compile(r"^\s+(get|wait) \(\S*ray/_private/worker\.py:\d+\)$", re.MULTILINE)
_WORKS = re.compile(r"MainThread|AsyncIO|asyncio|ThreadPoolExecutor|$")
_FRAME = re.compile(r"^\s+(?P<function>\S.*?) \((?P<where>[^()]+:\d+)\)$")


@dataclass(frozen=True)
class Member:
    """A process of a run. ``name`` is what its framework calls it: ``WorkerDict``, ``driver``."""

    pid: int
    name: str
    state: str
    busy: float = 0.0
    """Share of a core that it used during the sample."""
    connected: str = ""
    """An address outside of the run that it has a connection to."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.pid}"


@dataclass(frozen=True)
class Hang:
    """What holds a run up. ``phrase`` says what ``process`` does, or without a process what all do;
    ``place`` is ``function (file:line)``; ``waiter`` says who waits for the process, and where."""

    kind: Kind
    phrase: str
    process: Member | None = None
    place: str | None = None
    waiter: str = ""

    @property
    def text(self) -> str:
        """``driver 10 waits in ray.get for WorkerDict 14, which is stopped (state T)``."""
        if self.process is None:
            return self.phrase
        if self.waiter:
            return f"{self.waiter} for {self.process.label}, which {self.phrase}"
        return f"{self.process.label} {self.phrase}"

    def to_json(self) -> dict[str, object]:
        """As the event ``stall`` records it."""
        return {
            "kind": self.kind,
            "process": self.process and self.process.name,
            "pid": self.process and self.process.pid,
            "process_state": self.process and self.process.state,
            "place": self.place,
        }


def sample_members(processes: Iterable[Identity], driver: int | None) -> list[Member]:
    """The run's processes, workers first, without launchers and services. A state counts
    if it is the same a second later. Zombie children are members, too."""
    pids = [identity.pid for identity in processes]
    before = {pid: _sample(pid) for pid in [*pids, *_zombies(pids)]}
    time.sleep(_APART_S)
    members = []
    for pid, first in before.items():
        second = _sample(pid)
        if first is None or second is None or first[0] != second[0]:
            state, busy = (second[0] if second else "?"), 0.0
            state = "S" if state in _HELD else state
        else:
            state, busy = second[0], (second[1] - first[1]) / _TICKS / _APART_S
        members.append(Member(pid, _name(pid, driver), state, busy))
    of_run = {tuple(connection.laddr) for pid in pids for connection in _connections(pid)}
    named = (member for member in members if member.name)
    connected = [replace(member, connected=_outside(member, of_run)) for member in named]
    return sorted(connected, key=lambda member: bool(_COORDINATES.match(member.name)))


def find_stopped(processes: Iterable[Identity]) -> list[int]:
    """The processes that a signal or a debugger has stopped."""
    return [process.pid for process in processes if _state(process.pid) in ("T", "t")]


def find_hang(members: Sequence[Member], stack_of: Callable[[int], str | None]) -> Hang | None:
    """The likeliest cause of the silence, and who waits for it; None if nothing could be read.

    ``stack_of`` gives a process's Python stacks, as py-spy prints them.
    """
    hang = _find_cause(members, stack_of)
    if hang is None or hang.process is None:
        return hang
    others = [member for member in members if member is not hang.process]
    return replace(hang, waiter=_find_waiter(others, stack_of))


def _find_waiter(members: Sequence[Member], stack_of: Callable[[int], str | None]) -> str:
    """``driver 10 waits in ray.get``: the process that coordinates the others, if its stack shows
    that it only waits; empty otherwise. One that is in a call of Ray comes first."""
    waits = ""
    for member in members:
        if not _COORDINATES.match(member.name) or member.state in _HELD:
            continue
        stack = stack_of(member.pid) or ""
        if call := _RAY_WAIT.search(stack):
            return f"{member.label} waits in ray.{call[1]}"
        if stack and working_frame(stack) is None:
            waits = f"{member.label} waits"
    return waits


def _find_cause(members: Sequence[Member], stack_of: Callable[[int], str | None]) -> Hang | None:
    for state in ("T", "t", "D"):
        for member in members:
            if member.state == state:
                return _blocked(member)
    stacks = {m.pid: stack_of(m.pid) or "" for m in members if m.state != "Z"}
    frames = {pid: working_frame(stack) for pid, stack in stacks.items()}
    for member in members:
        if member.busy >= _SPINNING:
            frame = frames.get(member.pid) or innermost(stacks.get(member.pid, ""))
            phrase = f"runs at {100 * member.busy:.0f}% of a core{_in(frame)}"
            return Hang("spinning", phrase, member, frame)
    for member in members:
        if member.state == "Z":
            return _blocked(member)
    workers = [member for member in members if not _COORDINATES.match(member.name)]
    for member in workers:
        if _SCORES.search(member.name) and _JUDGE.search(stacks.get(member.pid, "")):
            return Hang("judge", "waits for a reply from the judge", member)
    for member in workers or members:
        if (frame := frames.get(member.pid)) is not None:
            return Hang("code", f"is in {frame}", member, frame)
    for member in workers:
        # A call of an event loop leaves no frame; only its connection shows it.
        if member.connected:
            return Hang("judge", f"waits for a reply from {member.connected}", member)
    if not any(stacks.values()):
        return None
    names = ", ".join(member.label for member in members[:4])
    return Hang("waiting", f"driver and workers wait for each other ({names})")


def working_frame(stack: str) -> str | None:
    """``function (file:line)`` of the innermost frame that is not a wait of Ray or Python; None if
    every thread only waits for other processes or for work."""
    for name, frames in _threads(stack):
        frame = next((frame for frame in frames if not _LIBRARY.search(frame["where"])), None)
        if frame is None:
            continue
        inner = frames[: frames.index(frame)]
        # Internal threads of libraries wait for locks all the time.
        if any(_REMOTE.search(waiting["where"]) for waiting in inner):
            continue
        if not inner or _WORKS.match(name):
            return _format_frame(frame)
    return None


def innermost(stack: str) -> str | None:
    """The innermost frame of the first thread."""
    frame = next((frames[0] for _, frames in _threads(stack) if frames), None)
    return None if frame is None else _format_frame(frame)


def _format_frame(frame: re.Match[str]) -> str:
    return f"{frame['function']} ({frame['where']})"


def _threads(stack: str) -> Iterator[tuple[str, list[re.Match[str]]]]:
    """``(name, frames)`` of each thread, frames innermost first."""
    for part in re.split(r"(?m)^(?=Thread )", stack):
        head, *lines = part.splitlines() or [""]
        name = head.partition('"')[2].rstrip('"')
        frames = [match for line in lines if (match := _FRAME.match(line))]
        if frames:
            yield name, frames


def _outside(member: Member, of_run: set[tuple[object, ...]]) -> str:
    """The address outside of the run that a scoring process is connected to, or empty."""
    if not _SCORES.search(member.name):
        return ""
    for connection in _connections(member.pid):
        remote = connection.raddr
        is_open = connection.status == psutil.CONN_ESTABLISHED
        if is_open and remote and tuple(remote) not in of_run:
            return f"{remote.ip}:{remote.port}"
    return ""


def _connections(pid: int) -> list[psutil._ntuples.pconn]:
    try:
        return [c for c in psutil.Process(pid).net_connections("inet") if c.laddr]
    except (psutil.Error, OSError):
        return []


def _blocked(member: Member) -> Hang:
    kind, phrase = _HELD[member.state]
    fix = f": kill -CONT {member.pid}" if kind == "stopped" and member.state == "T" else ""
    function = _kernel_function(member.pid) if kind == "disk" else None
    return Hang(kind, f"{phrase}{_in(function)}{fix}", member, function)


def _in(frame: str | None) -> str:
    return f", in {frame}" if frame else ""


def _kernel_function(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if text not in ("", "0") else None


def _sample(pid: int) -> tuple[str, int] | None:
    """``(state, CPU ticks)``."""
    fields = stat_of(pid)
    return None if fields is None else (fields[0], int(fields[11]) + int(fields[12]))


def _zombies(parents: Iterable[int]) -> Iterator[int]:
    """Children of these processes that have ended and were not collected."""
    parent_pids = set(parents)
    for pid, parent in every_parent():
        if parent in parent_pids and pid not in parent_pids and _state(pid) == "Z":
            yield pid


def _name(pid: int, driver: int | None) -> str:
    """Empty for a launcher or a service, unless it is stopped or blocked in the kernel."""
    command = _command(pid)
    if pid == driver:
        return "driver"
    title = _TITLE.search(command)
    name = title[1] if title else _short(command)
    serves = _STUB in command or _SERVICES.search(command)
    return name if not serves or _state(pid) in ("T", "t", "D") else ""


def _state(pid: int) -> str:
    fields = stat_of(pid)
    return "" if fields is None else fields[0]


def _command(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        # A zombie has no command line.
        text = text.strip() or Path(f"/proc/{pid}/comm").read_bytes()
        return text.decode(errors="replace").strip()
    except OSError:
        return ""


def _short(command: str) -> str:
    """``engine.train.sft`` of a command that runs this module; else the program's name."""
    words = command.split()
    module = next((word for word in words if word.startswith("engine.")), None)
    if module or "-m" in words[:-1]:
        return module or words[words.index("-m") + 1]
    scripts = (word for word in words[1:3] if word.endswith(".py"))
    return Path(next(scripts, words[0] if words else "process")).name


_TIMEOUT_S = 20.0


class Dumps:
    """Stacks of Python processes, each read once, within 20 s for all of them, because the
    supervisor waits."""

    def __init__(self) -> None:
        beside_python = Path(sys.executable).with_name("py-spy")
        self._tool = str(beside_python) if beside_python.exists() else shutil.which("py-spy")
        self._deadline = time.monotonic() + _TIMEOUT_S
        self._taken: dict[int, str | None] = {}

    def of(self, pid: int) -> str | None:
        """The stacks; None without py-spy, without permission, or for another kind of process."""
        if self._tool is None:
            return None
        if pid not in self._taken:
            self._taken[pid] = _stack(self._tool, pid, self._deadline)
        return self._taken[pid]


def write_stacks(target: Path, parts: Iterable[tuple[str, str | None]]) -> None:
    """Write stacks, each below a line with the process that it belongs to."""
    text = "\n\n".join(f"== {title}\n{stack or '(no stack)'}" for title, stack in parts)
    if text:
        files.write_atomic(target, text)


def _stack(tool: str, pid: int, deadline: float) -> str | None:
    command = [tool, "dump", "--nonblocking", "--pid", str(pid)]
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=remaining_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
