"""Find and end orphans: processes of ended runs on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.run.host.system import gpu_memory
from engine.run.identity import Identity
from engine.run.marks import Mark
from engine.run.processes import end, marked
from engine.run.run import Attempt, Run, archive_root, folder_names
from engine.run.state import observed_state, readable_state
from engine.run.trust import objection
from engine.supervise.finalize import finalize_if_lost


@dataclass(frozen=True)
class Orphan:
    """An orphaned process. Sizes in bytes; it listens on ``ports``."""

    process: Identity
    directory: Path
    run: str
    reason: str
    command: str
    rss: int
    gpu_bytes: int
    ports: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "pid": self.process.pid,
            "run": self.run,
            "reason": self.reason,
            "command": self.command,
            "rss": self.rss,
            "gpu_bytes": self.gpu_bytes,
            "ports": list(self.ports),
        }


def find_orphans(root: Path) -> list[Orphan]:
    """Processes of runs below ``root`` that have ended, were lost, or are deleted.

    They are identified by the mark of their run, never by name. Those of a run that was moved
    here are found too.
    """
    memory = gpu_memory()
    processes = list(marked())
    runs = {mark: _run_of(mark, root) for mark in {mark for _, mark in processes}}
    reasons = {mark: _end_reason(run, mark) for mark, run in runs.items() if run is not None}
    return [
        _describe(process, run, reason, memory.get(process.pid, 0))
        for process, mark in processes
        if (run := runs[mark]) is not None and (reason := reasons[mark])
    ]


def reap(orphans: Iterable[Orphan], patience_s: float = 5.0) -> list[int]:
    """End exactly these processes, and return the pids that were signalled.

    Lost runs are finalized. Runs that are not trusted are left alone.
    """
    trusted = [orphan for orphan in orphans if objection(Run(orphan.directory)) is None]
    ended = end([orphan.process for orphan in trusted], patience_s)
    for directory in {orphan.directory for orphan in trusted}:
        finalize_if_lost(Run(directory), "reap")
    return [process.pid for process in ended]


def _run_of(mark: Mark, root: Path) -> Run | None:
    """The run below ``root`` that a process belongs to, or belonged to if it was deleted."""
    if mark.is_in_place() or not mark.text:
        return Run(mark.directory) if mark.directory.parent == root.resolve() else None
    moved = (run for run in _candidates(mark, root) if mark.is_of(run))
    gone = Run(mark.directory) if mark.directory.parent == root.resolve() else None
    return next(moved, gone)


def _candidates(mark: Mark, root: Path) -> Iterator[Run]:
    """The runs of ``root`` and its archive; those with the name of the process's run come first."""
    folders = (root, archive_root(root))
    runs = [Run(folder / name) for folder in folders for name in folder_names(folder)]
    yield from sorted(runs, key=lambda run: run.path.name != mark.directory.name)


def _end_reason(run: Run, mark: Mark) -> str | None:
    if not run.manifest_file.exists() or not mark.is_of(run):
        return "its run directory was deleted"
    if (case := objection(run)) is not None:
        return f"{observed_state(run).state} according to its files; not ended: {case.reasons[0]}"
    state = readable_state(run)
    if state.has_ended:
        return f"its run is {state.state}"
    if Attempt(mark.attempt).number < state.attempt:
        return "it belongs to an earlier attempt"
    return None


def _describe(process: Identity, run: Run, reason: str, gpu_bytes: int) -> Orphan:
    try:
        details = psutil.Process(process.pid)
        command = " ".join(details.cmdline())[:200]
        connections = details.net_connections("inet")
        listening = [c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN]
        rss, ports = details.memory_info().rss, tuple(sorted(listening))
    except psutil.Error:
        command, rss, ports = "?", 0, ()
    return Orphan(process, run.path, run.id, reason, command, rss, gpu_bytes, ports)
