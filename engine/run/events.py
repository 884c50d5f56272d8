"""The events of a run (``run_log.jsonl``), and requests to stop it."""

from __future__ import annotations

import time

from msgspec import Struct, field

from engine.base import files, jsonl
from engine.base.masking import mask_data
from engine.base.typed import Integer, Line, Moment, read_lines, read_record, write_record
from engine.run.run import Run


class Event(Struct, frozen=True, gc=False, kw_only=True):
    """What happened to a run: a line of ``run_log.jsonl``, with the details that are read.

    ``message``, ``reason`` and ``state`` are not safe to show. A stall has a ``kind``, the process
    that hangs, and the file with its ``stacks`` in the folder of the attempt; a stop has the size
    of the console when it was obeyed. A resume begins after ``from_step``.
    """

    name: Line = field(name="event", default="")
    t: Moment | None = None
    attempt: Integer | None = None
    step: Integer | None = None
    from_step: Integer | None = None
    message: str = ""
    reason: str = ""
    state: str = ""
    kind: Line = ""
    process: Line | None = None
    pid: Integer | None = None
    process_state: Line | None = None
    place: Line | None = None
    stacks: Line = ""
    console_bytes: Integer | None = None


def event_record(event: str, **details: object) -> dict[str, object]:
    """One line: config, start, stop, signal, stall, continued, warning, end."""
    return {"v": 1, "t": time.time(), "event": event, **mask_data(details)}


def log_event(run: Run, event: str, **details: object) -> None:
    """Append one event."""
    jsonl.append(run.events, event_record(event, **details))


class StopRequest(Struct, frozen=True, gc=False, kw_only=True):
    """Stop now, or once the next checkpoint is complete. ``by`` names the requester.

    ``detach`` ends only the supervision of an adopted run: its program is left running.
    """

    t: Moment = 0.0
    after_checkpoint: bool = False
    by: Line = "user"
    detach: bool = False


def ask_stop(
    run: Run, *, after_checkpoint: bool = False, by: str = "user", detach: bool = False
) -> None:
    """Ask the supervisor to stop the run. A repeated request has no effect, except that a stop now
    replaces a stop after the next checkpoint."""
    waiting = pending_stop(run)
    if waiting is not None and not (waiting.after_checkpoint and not after_checkpoint):
        return
    files.make_folder(run.requests)
    request = StopRequest(t=time.time(), after_checkpoint=after_checkpoint, by=by, detach=detach)
    write_record(run.requests / "stop.json", request)


def pending_stop(run: Run) -> StopRequest | None:
    """The stop request, if any."""
    return read_record(run.requests / "stop.json", StopRequest)


def read_stop_offset(run: Run, attempt: int) -> int | None:
    """The size of the attempt's console, in bytes, when the supervisor obeyed a stop request.

    None if it obeyed none. What the console holds from there on, the stop may have caused.
    """
    offset: int | None = None
    for event in read_lines(run.events, Event):
        if event.name == "stop" and event.attempt == attempt:
            offset = event.console_bytes
    return offset


def clear_requests(run: Run) -> None:
    """Delete the requests of the previous attempt."""
    (run.requests / "stop.json").unlink(missing_ok=True)
