"""Structured events of a run, ``run_log.jsonl``."""

from __future__ import annotations

import time
from typing import Any

from engine import jsonl
from engine.runs.rundir import RunDir


def log_event(run: RunDir, event: str, **details: Any) -> None:
    """Append one event: start, config, checkpoint, validation, warning, stop, end."""
    jsonl.append(run.events, {"v": 1, "t": time.time(), "event": event, **details})
