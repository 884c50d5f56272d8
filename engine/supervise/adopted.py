"""Adopted runs: programs that somebody launched elsewhere, and logs that they write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.run.processes import Identity
from engine.run.rundir import RunDir


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
