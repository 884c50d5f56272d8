"""``queue.jsonl`` of a runs directory: in which order runs joined, how each ended, releases.

Only records of this boot of this machine count: a queue does not outlive its supervisors, and
other hosts that share the directory have their own queues.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.follow import Tail
from engine.runs.processes import boot_id
from engine.runs.state import StateName
from engine.runs.trust import is_neighbor

_JOIN_PATIENCE_S = 2.0
"""Joining is repeated, and between attempts the run records what it waits for."""


@dataclass(frozen=True)
class _End:
    """The end of a queued run. ``ran_s`` are the seconds since its trainer started."""

    line: int
    run: str
    failed: bool
    ran_s: float
    limit_s: float
    stepped: bool

    @property
    def fast(self) -> bool:
        return self.failed and (self.ran_s <= self.limit_s or not self.stepped)


class QueueLog:
    """Follows the file. ``places`` are line numbers by run ID; the last one of an ID counts."""

    def __init__(self, root: Path) -> None:
        self.places: dict[str, int] = {}
        self._tail = Tail(log_path(root))
        self._boot = boot_id()
        self._line = 0
        self._ends: deque[_End] = deque(maxlen=2)

    def refresh(self) -> None:
        """Read the lines that were appended since the last call."""
        for line in self._tail.lines():
            record = jsonl.parse_line(line)
            self._line += 1
            if record is not None and record.get("boot") == self._boot:
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
        if len(self._ends) < 2 or not all(end.fast for end in self._ends):
            return None
        last = self._ends[-1]
        if self.places.get(run, 0) > last.line:
            return None
        early = all(end.ran_s <= end.limit_s for end in self._ends)
        limit = f"within {max(end.limit_s for end in self._ends):g} s of their start"
        period = limit if early else f"{limit} or before their first step"
        names = " and ".join(end.run for end in self._ends)
        return (
            f"held: runs {names} failed {period}. Release the queue: grubrics-tui queue --release"
        )

    def _take(self, record: dict[str, Any]) -> None:
        event, run = record.get("event"), jsonl.line(record.get("run"))
        if event == "release":
            self._ends.clear()
        elif event == "join" and run:
            self.places[run] = self._line
        elif event == "end" and run:
            self._ends.append(
                _End(
                    self._line,
                    run,
                    record.get("state") == "failed",
                    jsonl.number(record.get("ran_s")) or 0.0,
                    jsonl.number(record.get("limit_s")) or 0.0,
                    bool(record.get("stepped")),
                )
            )


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
) -> dict[str, Any]:
    """The record of the end of a queued run, ``ran_s`` seconds after its trainer started."""
    return _record("end", run=run, state=state, ran_s=ran_s, limit_s=limit_s, stepped=stepped)


def _record(event: str, **details: Any) -> dict[str, Any]:
    return {"v": 1, "t": time.time(), "boot": boot_id(), "event": event, **details}
