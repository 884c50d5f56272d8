"""The events of a run (``run_log.jsonl``), and requests to stop it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from engine.base import files, jsonl
from engine.base.masking import mask_data
from engine.run.rundir import RunDir


def event_record(event: str, **details: Any) -> dict[str, Any]:
    """One line: config, start, stop, signal, stall, continued, warning, end."""
    return {"v": 1, "t": time.time(), "event": event, **mask_data(details)}


def log_event(run: RunDir, event: str, **details: Any) -> None:
    """Append one event."""
    jsonl.append(run.events, event_record(event, **details))


@dataclass(frozen=True)
class StopRequest:
    """Stop now, or once the next checkpoint is complete. ``by`` names the requester.

    ``detach`` ends only the supervision of an adopted run: its program is left running.
    """

    after_checkpoint: bool
    time: float
    by: str = "user"
    detach: bool = False


def ask_stop(
    run: RunDir, *, after_checkpoint: bool = False, by: str = "user", detach: bool = False
) -> None:
    """Ask the supervisor to stop the run. A repeated request has no effect, except that a stop now
    replaces a stop after the next checkpoint."""
    waiting = pending_stop(run)
    if waiting is not None and not (waiting.after_checkpoint and not after_checkpoint):
        return
    files.make_folder(run.requests)
    now = time.time()
    request = {"v": 1, "t": now, "after_checkpoint": after_checkpoint, "by": by, "detach": detach}
    jsonl.write_json(run.requests / "stop.json", request)


def pending_stop(run: RunDir) -> StopRequest | None:
    """The stop request, if any."""
    raw = jsonl.read_json(run.requests / "stop.json")
    if raw is None:
        return None
    return StopRequest(
        raw.get("after_checkpoint") is True,
        jsonl.moment(raw.get("t")) or 0.0,
        jsonl.line(raw.get("by")) or "user",
        raw.get("detach") is True,
    )


def read_stop_offset(run: RunDir, attempt: int) -> int | None:
    """The size of the attempt's console, in bytes, when the supervisor obeyed a stop request.

    None if it obeyed none. What the console holds from there on, the stop may have caused.
    """
    offset: int | None = None
    for event in jsonl.read(run.events):
        if event.get("event") == "stop" and event.get("attempt") == attempt:
            offset = jsonl.integer(event.get("console_bytes"))
    return offset


def clear_requests(run: RunDir) -> None:
    """Delete the requests of the previous attempt."""
    (run.requests / "stop.json").unlink(missing_ok=True)
