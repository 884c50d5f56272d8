"""The files a supervisor keeps: nothing is lost while the disk is full."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.history.train_log import Step
from engine.runs.events import event_record
from engine.runs.rundir import Attempt, RunDir
from engine.runs.state import RunState, write_state
from engine.supervise.queue_log import log_path

_SAMPLES_KEPT = 1000


class RunWriter:
    """Writes state, events, steps and samples.

    What cannot be written (disk full, network file system away) is kept in memory and written,
    in order, once the disk takes it again; only old system samples are let go. ``trouble`` says
    what is wrong meanwhile, and so does the state on disk, which needs no room.
    """

    def __init__(self, run: RunDir, attempt: Attempt) -> None:
        self._run = run
        self._lines: dict[Path, deque[dict[str, Any]]] = {
            run.events: deque(),
            run.train_log: deque(),
            log_path(run.path.parent): deque(),
        }
        self._samples: deque[dict[str, Any]] = deque(maxlen=_SAMPLES_KEPT)
        self._system = attempt.system
        self._state: RunState | None = None
        self.trouble: str | None = None

    def event(self, name: str, **details: Any) -> None:
        self._lines[self._run.events].append(event_record(name, **details))

    def step(self, step: Step) -> None:
        self._lines[self._run.train_log].append(step.to_json())

    def sample(self, record: dict[str, Any]) -> None:
        self._samples.append(record)

    def queue(self, record: dict[str, Any]) -> None:
        """A line for the runs that wait; written before the next state."""
        self._lines[log_path(self._run.path.parent)].append(record)

    def state(self, state: RunState) -> None:
        self._state = state

    def flush(self) -> bool:
        """Write what waits; False while some of it cannot be written, old samples apart."""
        self.trouble = None
        self._write_lines(self._system, self._samples)
        written = [self._write_lines(path, lines) for path, lines in self._lines.items()]
        whole = all(written)
        # The state comes last: whoever reads that the run has ended finds every line.
        return self._write_state(whole) and whole

    def flush_until(self, deadline_s: float) -> None:
        """Try for up to ``deadline_s`` seconds: the last words of a run are worth waiting for.

        Then at least the state is written, if there is still a directory for it.
        """
        end = time.monotonic() + deadline_s
        while not self.flush() and self._run.path.exists():
            if time.monotonic() >= end:
                self._give_up()
                return
            time.sleep(0.5)

    def _write_lines(self, path: Path, lines: deque[dict[str, Any]]) -> bool:
        try:
            while lines:
                jsonl.append(path, lines[0])
                lines.popleft()
        except OSError as error:
            self._note(error)
        return not lines

    def _write_state(self, whole: bool) -> bool:
        if self._state is None:
            return True
        try:
            write_state(self._run, self._state if whole and self._state.has_ended else self._told())
        except OSError as error:
            self._note(error)
            return False
        if whole:
            self._state = None
        return True

    def _told(self) -> RunState:
        """The state with what troubles the files; no end is told before its last lines are."""
        assert self._state is not None
        if self.trouble is None:
            return self._state
        complaint = f"cannot write {self.trouble}"
        reason = f"{self._state.reason}; {complaint}" if self._state.reason else complaint
        now, beat = time.time(), time.monotonic()
        told = self._state.evolve(reason=reason, heartbeat=now, beat=beat)
        return told.evolve(state="stopping", ended=None) if told.has_ended else told

    def _note(self, error: OSError) -> None:
        self.trouble = f"{error.filename or self._run.path}: {error.strerror}"

    def _give_up(self) -> None:
        if self._state is not None:
            reason = f"{self._state.reason or self._state.state}; cannot write {self.trouble}"
            with contextlib.suppress(OSError):
                write_state(self._run, self._state.evolve(reason=reason))
