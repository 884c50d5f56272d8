"""Adopted runs: programs that somebody launched elsewhere, and logs that they write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.run.marks import is_copy
from engine.run.processes import Identity, alive, end, tree
from engine.run.rundir import RunDir
from engine.run.state import observed_state
from engine.run.trust import require
from engine.supervise.follower import Report, read_report, write_report

_STOP_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Adopted:
    """What an adopted run follows: ``adopted`` in its manifest."""

    process: Identity | None = None
    """The program; None where only its files are known."""
    path: Path | None = None
    """The file or folder whose growth shows that the program runs; None for a process."""
    logs: tuple[Path, ...] = ()
    """The files that are copied to the console log."""
    started: float | None = None
    """When the program started in Unix seconds; None where only its files are known."""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Adopted | None:
        raw = manifest.get("adopted")
        if not isinstance(raw, dict):
            return None
        path = raw.get("path")
        return cls(
            jsonl.convert(raw.get("process"), Identity),
            Path(path) if path else None,
            tuple(map(Path, raw.get("logs") or ())),
            jsonl.moment(raw.get("started")),
        )

    @property
    def where(self) -> str:
        if self.process is not None:
            return f"process {self.process.pid}"
        return jsonl.line(str(self.path)) or "?"


def read_adopted(run: RunDir) -> Adopted | None:
    """What the run follows; None for a run that was launched here."""
    return Adopted.from_manifest(run.read_manifest("adopted"))


def require_process(run: RunDir) -> None:
    """Raise UsageError for an active adopted run of which only files are known: which process a
    stop would have to end is unknown."""
    adopted = read_adopted(run)
    if adopted is None or adopted.process is not None or observed_state(run).has_ended:
        return
    raise UsageError(
        f"run '{run.id}' follows {adopted.where}, and which process writes it is not known. "
        f"To end only its supervision: grubrics-tui stop {run.id} --detach"
    )


def has_unknown_end(run: RunDir) -> bool:
    """Whether the run was adopted and followed to its end, so that it may have succeeded."""
    report = read_report(run.attempt(1).path)
    return read_adopted(run) is not None and report is not None and report.outcome == "unknown"


def find_running(run: RunDir) -> str:
    """The processes that a stop ends, such as ``process 12 (train.py) and its 3 descendants``.

    Empty where it ends none.
    """
    adopted, ended = read_adopted(run), observed_state(run).has_ended
    if adopted is None or (ended and left_process(run) is None):
        return ""
    processes = tree(adopted.process) if adopted.process else []
    if not processes:
        return ""
    program = run.read_manifest("recipe").get("recipe", "?")
    others = format_count(len(processes) - 1, "descendant")
    return f"{adopted.where} ({program})" + (f" and its {others}" if len(processes) > 1 else "")


def left_process(run: RunDir) -> Identity | None:
    """The program that runs on after the supervision of the run ended without being asked to. That
    of a copied run belongs to the original."""
    adopted = read_adopted(run)
    if adopted is None or adopted.process is None or not alive(adopted.process) or is_copy(run):
        return None
    report = read_report(run.attempt(1).path)
    return adopted.process if report is None or report.outcome is None else None


def left_running(run: RunDir) -> str | None:
    """``left_process`` in words. UsageError for a run that is not trusted."""
    if (process := left_process(run)) is None:
        return None
    require(run, executes=True)
    return f"its program, process {process.pid}, still runs"


def stop_left(run: RunDir) -> None:
    """End the program that ``left_process`` finds."""
    if (process := left_process(run)) is not None:
        require(run, executes=True)
        end(tree(process), _STOP_PATIENCE_S)


def leave(run: RunDir) -> None:
    """Record that the program of a run without a supervisor is left running."""
    if (process := left_process(run)) is not None:
        require(run)
        where = f"process {process.pid}"
        write_report(run.attempt(1).path, Report(where, outcome="left"))
