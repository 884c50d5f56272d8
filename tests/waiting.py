"""Waiting for what other processes do. Patience costs nothing where all is well."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.runs.rundir import RunDir
from engine.runs.state import RunState, observed_state


def wait_for(condition: Callable[[], object], seconds: float = 180.0) -> None:
    """Return once ``condition`` holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def ended(run: RunDir) -> RunState:
    """The state in which a run ends."""
    wait_for(lambda: observed_state(run).has_ended)
    return observed_state(run)
