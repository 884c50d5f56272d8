"""The files a supervisor keeps: nothing is lost while the disk is full."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.runs.events import event_record
from engine.runs.rundir import Attempt, RunDir
from engine.runs.state import RunState, write_state
from engine.watch.train_log import Step

_SAMPLES_KEPT = 1000


class Books:
    """Writes state, events, steps and samples.

    What cannot be written (disk full, network file system away) is kept in memory and written,
    in order, once the disk takes it again; only old system samples are let go. ``trouble`` says
    what is wrong meanwhile.
    """

    def __init__(self, run: RunDir, attempt: Attempt) -> None:
        self._run = run
        self._queues: dict[Path, deque[dict[str, Any]]] = {
            run.events: deque(),
            run.train_log: deque(),
            attempt.system: deque(maxlen=_SAMPLES_KEPT),
        }
        self._system = attempt.system
        self._state: RunState | None = None
        self.trouble: str | None = None

    def event(self, name: str, **details: Any) -> None:
        self._queues[self._run.events].append(event_record(name, **details))

    def step(self, step: Step) -> None:
        self._queues[self._run.train_log].append(step.to_json())

    def sample(self, record: dict[str, Any]) -> None:
        self._queues[self._system].append(record)

    def state(self, state: RunState) -> None:
        self._state = state

    def flush(self) -> bool:
        """Write what waits; False while some of it cannot be written."""
        try:
            for path, queue in self._queues.items():
                while queue:
                    jsonl.append(path, queue[0])
                    queue.popleft()
            if self._state is not None:
                write_state(self._run, self._state)
                self._state = None
        except OSError as error:
            self.trouble = f"{error.filename or self._run.path}: {error.strerror}"
            return False
        self.trouble = None
        return True

    def flush_until(self, deadline_s: float) -> None:
        """Try for up to ``deadline_s`` seconds: the last words of a run are worth waiting for."""
        end = time.monotonic() + deadline_s
        while not self.flush() and time.monotonic() < end:
            time.sleep(0.5)
