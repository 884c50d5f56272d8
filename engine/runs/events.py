"""Structured events of a run, ``run_log.jsonl``."""

from __future__ import annotations

import time
from typing import Any

from engine.base import jsonl
from engine.base.masking import mask_data
from engine.runs.rundir import RunDir


def event_record(event: str, **details: Any) -> dict[str, Any]:
    """One line: config, start, stop, signal, stall, continued, warning, end."""
    return {"v": 1, "t": time.time(), "event": event, **mask_data(details)}


def log_event(run: RunDir, event: str, **details: Any) -> None:
    """Append one event."""
    jsonl.append(run.events, event_record(event, **details))
