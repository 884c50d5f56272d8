"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from engine.run.run import Run
from engine.run.state import RunState, observed_state

PATIENCE_S = 500.0
"""How long a test waits before it fails. Only a broken program takes as long, also where other
programs keep every core busy; pytest ends a test after 600 seconds."""
TRAINING_PATIENCE_S = 1500.0
"""The same for a run that trains. pytest ends a test marked slow after 1800 seconds."""


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return once ``condition`` holds; fail when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:.0f} s"
        time.sleep(0.05)


def ended(run: Run) -> RunState:
    """Wait for the end of a run; returns its last state."""
    wait_for(lambda: observed_state(run).has_ended)
    return observed_state(run)


def is_over(process: psutil.Process | int) -> bool:
    """Whether a process, or that of a PID, has ended. One that was killed a moment ago may still
    run: wait for it."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
