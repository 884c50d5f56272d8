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
from typing import Any, Literal

import psutil

from engine.base import files
from engine.runs.processes import Identity

Kind = Literal["stopped", "disk", "zombie", "spinning", "judge", "code", "waiting"]

_HELD: dict[str, tuple[Kind, str]] = {
    "T": ("stopped", "is stopped (state T)"),
    "t": ("stopped", "is stopped by a debugger (state t)"),
    "D": ("disk", "waits for a disk or a file system (state D)"),
    "Z": ("zombie", "has ended and nobody collected it (state Z)"),
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
    r"|own_reward/wire\.py)(?:[/:]|$)"
)
_JUDGE = re.compile(
    r"[/(](?:openai|httpx|httpcore|litellm|aiohttp|anthropic|engine/judge|rubrics/judge)/"
)
_REMOTE = re.compile(
    r"(?:^|/)(?:ray|asyncio|uvloop|transfer_queue|zmq|grpc|zygote_client\.py|own_reward/wire\.py)"
    r"(?:[/:]|$)"
)
"""Whoever waits here is held up by another process, or has nothing to do."""
_WORKS = re.compile(r"MainThread|AsyncIO|asyncio|ThreadPoolExecutor|$")
_FRAME = re.compile(r"^\s+(?P<function>\S.*?) \((?P<where>[^()]+:\d+)\)$")


@dataclass(frozen=True)
class Member:
    """A process of a run. ``name`` is what its framework calls it: ``WorkerDict``, ``driver``."""

    pid: int
    name: str
    state: str
    busy: float = 0.0
    """Share of a core that it used while it was looked at."""
    connected: str = ""
    """An address outside of the run that it has a connection to."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.pid}"


@dataclass(frozen=True)
class Hang:
    """What holds a run up. ``text`` is one phrase; ``place`` is ``function (file:line)``."""

    kind: Kind
    text: str
    process: Member | None = None
    place: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the event ``stall`` records it."""
        known = self.process
        return {
            "kind": self.kind,
            "process": None if known is None else known.name,
            "pid": None if known is None else known.pid,
            "process_state": None if known is None else known.state,
            "place": self.place,
        }


def look_at(processes: Iterable[Identity], driver: int | None) -> list[Member]:
    """The run's processes, workers first, without what only starts or serves them. A state counts
    when it is the same a second later. Children that nobody collected are members, too."""
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
    own = _addresses(pids)
    named = (one for one in members if one.name)
    found = [replace(one, connected=_outside(one, own)) for one in named]
    return sorted(found, key=lambda one: bool(_COORDINATES.match(one.name)))


def find_stopped(processes: Iterable[Identity]) -> list[int]:
    """The processes that a signal or a debugger has stopped."""
    return [one.pid for one in processes if _state(one.pid) in ("T", "t")]


def find_hang(members: Sequence[Member], stack_of: Callable[[int], str | None]) -> Hang | None:
    """The likeliest cause of the silence; None where nothing could be seen.

    ``stack_of`` gives a process's Python stacks, as py-spy prints them.
    """
    for held in ("T", "t", "D"):
        for one in members:
            if one.state == held:
                return _held(one)
    stacks = {one.pid: stack_of(one.pid) or "" for one in members if one.state != "Z"}
    places = {pid: own_place(stack) for pid, stack in stacks.items()}
    for one in members:
        if one.busy >= _SPINNING:
            where = places.get(one.pid) or innermost(stacks.get(one.pid, ""))
            text = f"{one.label} runs at {100 * one.busy:.0f} % of a core{_in(where)}"
            return Hang("spinning", text, one, where)
    for one in members:
        if one.state == "Z":
            return _held(one)
    workers = [one for one in members if not _COORDINATES.match(one.name)]
    for one in workers:
        if _SCORES.search(one.name) and _JUDGE.search(stacks.get(one.pid, "")):
            return Hang("judge", f"{one.label} waits for an answer of the judge", one)
    for one in workers or members:
        if (place := places.get(one.pid)) is not None:
            return Hang("code", f"{one.label} is in {place}", one, place)
    for one in workers:
        # What is asked by an event loop leaves no frame; its connection is all that shows.
        if one.connected:
            text = f"{one.label} waits for an answer from {one.connected}"
            return Hang("judge", text, one)
    if not any(stacks.values()):
        return None
    names = ", ".join(one.label for one in members[:4])
    return Hang("waiting", f"driver and workers wait for each other ({names})")


def own_place(stack: str) -> str | None:
    """``function (file:line)`` of the innermost frame that is neither Ray's nor Python's own way of
    waiting; None where every thread only waits for other processes or for work."""
    for name, frames in _threads(stack):
        own = next((frame for frame in frames if not _LIBRARY.search(frame["where"])), None)
        if own is None:
            continue
        inner = frames[: frames.index(own)]
        # Threads that libraries keep for themselves wait by locks all the time.
        if any(_REMOTE.search(frame["where"]) for frame in inner):
            continue
        if not inner or _WORKS.match(name):
            return _place(own)
    return None


def innermost(stack: str) -> str | None:
    """The innermost frame of the first thread."""
    frame = next((frames[0] for _, frames in _threads(stack) if frames), None)
    return None if frame is None else _place(frame)


def _place(frame: re.Match[str]) -> str:
    return f"{frame['function']} ({frame['where']})"


def _threads(stack: str) -> Iterator[tuple[str, list[re.Match[str]]]]:
    """``(name, frames)`` of each thread, frames innermost first."""
    for part in re.split(r"(?m)^(?=Thread )", stack):
        head, *lines = part.splitlines() or [""]
        name = head.partition('"')[2].rstrip('"')
        frames = [match for line in lines if (match := _FRAME.match(line))]
        if frames:
            yield name, frames


def _addresses(pids: Iterable[int]) -> set[tuple[str, int]]:
    """The local ends of all connections of the run's processes."""
    return {tuple(found.laddr) for pid in pids for found in _connections(pid)}


def _outside(one: Member, own: set[tuple[str, int]]) -> str:
    """Where a process that scores is connected to, outside of the run."""
    if not _SCORES.search(one.name):
        return ""
    for found in _connections(one.pid):
        if (
            found.status == psutil.CONN_ESTABLISHED
            and found.raddr
            and tuple(found.raddr) not in own
        ):
            return f"{found.raddr.ip}:{found.raddr.port}"
    return ""


def _connections(pid: int) -> list[Any]:
    try:
        return [one for one in psutil.Process(pid).net_connections("inet") if one.laddr]
    except (psutil.Error, OSError):
        return []


def _held(one: Member) -> Hang:
    kind, what = _HELD[one.state]
    onward = f": kill -CONT {one.pid}" if kind == "stopped" and one.state == "T" else ""
    place = _kernel_place(one.pid) if kind == "disk" else None
    return Hang(kind, f"{one.label} {what}{_in(place)}{onward}", one, place)


def _in(place: str | None) -> str:
    return f", in {place}" if place else ""


def _kernel_place(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if text not in ("", "0") else None


def _sample(pid: int) -> tuple[str, int] | None:
    """``(state, CPU ticks)``."""
    fields = _stat(pid)
    return None if fields is None else (fields[0], int(fields[11]) + int(fields[12]))


def _zombies(parents: Iterable[int]) -> Iterator[int]:
    """Children of these processes that have ended and were not collected."""
    known = set(parents)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in known:
            fields = _stat(int(entry.name))
            if fields is not None and fields[0] == "Z" and int(fields[1]) in known:
                yield int(entry.name)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rfind(")") + 2 :].split()


def _name(pid: int, driver: int | None) -> str:
    """Empty for a process that only starts or serves others, unless the kernel holds it."""
    command = _command(pid)
    if pid == driver:
        return "driver"
    title = _TITLE.search(command)
    name = title[1] if title else _short(command)
    serves = _STUB in command or _SERVICES.search(command)
    return name if not serves or _state(pid) in ("T", "t", "D") else ""


def _state(pid: int) -> str:
    fields = _stat(pid)
    return "" if fields is None else fields[0]


def _command(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        # A zombie has no command line any more.
        text = text.strip() or Path(f"/proc/{pid}/comm").read_bytes()
        return text.decode(errors="replace").strip()
    except OSError:
        return ""


def _short(command: str) -> str:
    """``engine.train.sft`` of a command that runs this module; else the program's name."""
    words = command.split()
    own = next((word for word in words if word.startswith("engine.")), None)
    if own or "-m" in words[:-1]:
        return own or words[words.index("-m") + 1]
    scripts = (word for word in words[1:3] if word.endswith(".py"))
    return Path(next(scripts, words[0] if words else "process")).name


_TIMEOUT_S = 20.0


class Dumps:
    """Stacks of Python processes, each taken once, within twenty seconds for all of them: the
    supervisor waits for them."""

    def __init__(self) -> None:
        self._tool = _py_spy()
        self._deadline = time.monotonic() + _TIMEOUT_S
        self._taken: dict[int, str | None] = {}

    def of(self, pid: int) -> str | None:
        """None when nothing can be read: no py-spy, no permission, no Python process."""
        if self._tool is None:
            return None
        if pid not in self._taken:
            self._taken[pid] = _stack(self._tool, pid, self._deadline)
        return self._taken[pid]


def write_stacks(target: Path, parts: Iterable[tuple[str, str | None]]) -> None:
    """Keep stacks, each below a line that says whose it is."""
    text = "\n\n".join(f"== {title}\n{stack or '(no stack)'}" for title, stack in parts)
    if text:
        files.write_atomic(target, text)


def _py_spy() -> str | None:
    beside_python = Path(sys.executable).with_name("py-spy")
    return str(beside_python) if beside_python.exists() else shutil.which("py-spy")


def _stack(tool: str, pid: int, deadline: float) -> str | None:
    command = [tool, "dump", "--nonblocking", "--pid", str(pid)]
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
