"""What runs left behind on this machine: processes of runs that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.runs.aftermath import settle_if_lost
from engine.runs.processes import Identity, end, marked
from engine.runs.rundir import Attempt, RunDir
from engine.runs.state import settled_state
from engine.runs.system import gpu_memory


@dataclass(frozen=True)
class Leftover:
    """A process whose run is over. Bytes; ``ports`` are those it listens on."""

    process: Identity
    directory: Path
    run: str
    reason: str
    command: str
    rss: int
    gpu_bytes: int
    ports: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.process.pid,
            "run": self.run,
            "reason": self.reason,
            "command": self.command,
            "rss": self.rss,
            "gpu_bytes": self.gpu_bytes,
            "ports": list(self.ports),
        }


def leftovers(root: Path) -> list[Leftover]:
    """Processes started for runs below ``root`` that have ended, were lost, or are deleted.

    They are known by the mark their run gave them, never by name.
    """
    held = gpu_memory()
    ours = [(process, folder) for process, folder in marked() if _is_below(folder, root)]
    reasons = {folder: _why_over(folder) for folder in {folder for _, folder in ours}}
    return [
        _describe(process, folder, reason, held.get(process.pid, 0))
        for process, folder in ours
        if (reason := reasons[folder])
    ]


def reap(found: Iterable[Leftover], patience_s: float = 5.0) -> list[int]:
    """End exactly these processes; returns the pids that were still there to be ended.

    The books of runs that were lost are closed.
    """
    told = list(found)
    ended = end([one.process for one in told], patience_s)
    for directory in {one.directory for one in told}:
        settle_if_lost(RunDir(directory), "reap")
    return [process.pid for process in ended]


def _is_below(folder: Path, root: Path) -> bool:
    return folder.parent.parent == root.resolve()


def _why_over(folder: Path) -> str | None:
    run = RunDir(folder.parent)
    if not run.manifest.exists():
        return "its run directory is gone"
    state = settled_state(run)
    if state.has_ended:
        return f"its run is {state.state}"
    if Attempt(folder).number < state.attempt:
        return "it belongs to an earlier attempt"
    return None


def _describe(process: Identity, folder: Path, reason: str, gpu_bytes: int) -> Leftover:
    try:
        details = psutil.Process(process.pid)
        command = " ".join(details.cmdline())[:200]
        rss, ports = details.memory_info().rss, tuple(sorted(_listening(details)))
    except psutil.Error:
        command, rss, ports = "?", 0, ()
    return Leftover(
        process, folder.parent, folder.parent.name, reason, command, rss, gpu_bytes, ports
    )


def _listening(process: psutil.Process) -> Iterator[int]:
    for connection in process.net_connections("inet"):
        if connection.status == psutil.CONN_LISTEN:
            yield connection.laddr.port
