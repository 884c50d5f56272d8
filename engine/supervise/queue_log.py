"""``queue.jsonl`` of a runs folder: who joined in which order, how each ended, what was released.

Only records of this boot of this machine count: a queue does not outlive its supervisors, and
other hosts that share the folder have queues of their own.
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
"""It is tried again, and meanwhile the run has to say what it waits for."""


@dataclass(frozen=True)
class _End:
    """How a run that had waited ended. ``ran_s`` are the seconds since its trainer's start."""

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
    """Follows the file. ``places`` are line numbers by run id; a name used again counts anew."""

    def __init__(self, root: Path) -> None:
        self.places: dict[str, int] = {}
        self._tail = Tail(log_path(root))
        self._boot = boot_id()
        self._line = 0
        self._ends: deque[_End] = deque(maxlen=2)

    def refresh(self) -> None:
        """Read what was appended since the last time."""
        for line in self._tail.lines():
            record = jsonl.parse_line(line)
            self._line += 1
            if record is not None and record.get("boot") == self._boot:
                self._take(record)

    def in_order(self, runs: Collection[str]) -> list[str]:
        """The runs by place; one whose joining cannot be read goes first, so all wait for it."""
        return sorted(runs, key=lambda run: (self.places.get(run, -1), run))

    def ahead(self, run: str, waiting: Collection[str]) -> list[str]:
        """Those of the ``waiting`` runs that come before ``run``, in order."""
        mine = self.places[run]
        return self.in_order([other for other in waiting if self.places.get(other, -1) < mine])

    def hold(self, run: str) -> str | None:
        """Why the queue is stopped for ``run``, or None.

        Two fast failures in a row stop those who waited then, not who joins afterwards.
        """
        if len(self._ends) < 2 or not all(end.fast for end in self._ends):
            return None
        last = self._ends[-1]
        if self.places.get(run, 0) > last.line:
            return None
        early = all(end.ran_s <= end.limit_s for end in self._ends)
        limit = f"within {max(end.limit_s for end in self._ends):g} s of their start"
        when = limit if early else f"{limit} or before their first step"
        names = " and ".join(end.run for end in self._ends)
        return f"held: runs {names} failed {when}. Release the queue: grubrics-tui queue --release"

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
    """The queue's file: everybody's in a folder that a group shares, else this user's own where
    somebody else made the first one."""
    shared = root / "queue.jsonl"
    try:
        status = shared.lstat()
    except OSError:
        return shared
    usable = stat.S_ISREG(status.st_mode) and os.access(shared, os.R_OK | os.W_OK)
    mine = usable and (status.st_uid == os.geteuid() or is_neighbor(str(shared)))
    return shared if mine else root / f"queue-{os.geteuid()}.jsonl"


def join(root: Path, run: str) -> None:
    """Take the last place. OSError when it cannot be written, or soon when the file is locked."""
    path = log_path(root)
    jsonl.append(path, _record("join", run=run), _JOIN_PATIENCE_S)
    folder, file = root.stat(), path.stat()
    # Every member of the group that shares the folder joins the same queue.
    if folder.st_mode & 0o022 == 0o020 and file.st_uid == os.geteuid():
        path.chmod(file.st_mode & 0o777 | 0o060)


def release(root: Path) -> None:
    """Let the queue go on after failures stopped it."""
    jsonl.append(log_path(root), _record("release"))


def end_record(
    run: str, state: StateName, ran_s: float, limit_s: float, stepped: bool
) -> dict[str, Any]:
    """How a run that had waited ended, ``ran_s`` seconds after its trainer was started."""
    return _record("end", run=run, state=state, ran_s=ran_s, limit_s=limit_s, stepped=stepped)


def _record(event: str, **details: Any) -> dict[str, Any]:
    return {"v": 1, "t": time.time(), "boot": boot_id(), "event": event, **details}
