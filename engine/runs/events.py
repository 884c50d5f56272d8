"""The events of a run (``run_log.jsonl``), and requests to stop it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from engine.base import files, jsonl
from engine.base.masking import mask_data
from engine.runs.rundir import RunDir


def event_record(event: str, **details: Any) -> dict[str, Any]:
    """One line: config, start, stop, signal, stall, continued, warning, end."""
    return {"v": 1, "t": time.time(), "event": event, **mask_data(details)}


def log_event(run: RunDir, event: str, **details: Any) -> None:
    """Append one event."""
    jsonl.append(run.events, event_record(event, **details))


@dataclass(frozen=True)
class StopRequest:
    """Stop now, or once the next checkpoint is complete. ``by`` is who asks."""

    after_checkpoint: bool
    asked: float
    by: str = "user"


def ask_stop(run: RunDir, *, after_checkpoint: bool = False, by: str = "user") -> None:
    """Ask the run's supervisor to stop it. Asking twice is asking once; "now" wins over "after"."""
    waiting = pending_stop(run)
    if waiting is not None and not (waiting.after_checkpoint and not after_checkpoint):
        return
    files.make_folder(run.requests)
    request = {"v": 1, "t": time.time(), "after_checkpoint": after_checkpoint, "by": by}
    jsonl.write_json(run.requests / "stop.json", request)


def pending_stop(run: RunDir) -> StopRequest | None:
    """The stop that was asked for, if any."""
    raw = jsonl.read_json(run.requests / "stop.json")
    if raw is None:
        return None
    asked, by = jsonl.moment(raw.get("t")) or 0.0, jsonl.line(raw.get("by")) or "user"
    return StopRequest(raw.get("after_checkpoint") is True, asked, by)


def clear_requests(run: RunDir) -> None:
    """Forget the requests of the attempt before."""
    (run.requests / "stop.json").unlink(missing_ok=True)
