"""Write the files of a supervisor: nothing is lost while the disk is full."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path

from engine.base import files, jsonl
from engine.base.typed import to_json
from engine.run.events import event_record
from engine.run.history.train_log import Step
from engine.run.run import Run
from engine.run.state import RunState, write_end, write_state
from engine.run.system_sample import SystemSample
from engine.supervise.queue import log_path

_MAX_SAMPLES = 1000
_LOCK_PATIENCE_S = 1.0
"""The next turn tries again: nobody waits for a heartbeat because a process holds a lock."""


class RunWriter:
    """Writes state, events, steps and samples.

    While writing fails (disk full, network file system away), lines stay in memory and are written
    in order later; only old system samples are dropped. Meanwhile ``trouble`` names the problem. So
    does the state on disk, which can be overwritten in place.
    """

    def __init__(self, run: Run, attempt: int, held: Run | None = None) -> None:
        """``held``: the run by its open folder (``OpenRunFolder``); its files are written there."""
        self._run, self._held = run, held or run
        self._lines: dict[Path, deque[dict[str, object]]] = {
            self._held.events: deque(),
            self._held.train_log: deque(),
            log_path(run.path.parent): deque(),
        }
        self._doubtful: set[Path] = set()
        """Files whose next line may be there although writing it failed."""
        self._samples: deque[dict[str, object]] = deque(maxlen=_MAX_SAMPLES)
        self._system = self._held.attempt(attempt).system
        self._state: RunState | None = None
        self.trouble: str | None = None
        self.passes = False
        """Whether the system may answer differently next time: no reason for the end of a run."""

    def event(self, name: str, **details: object) -> None:
        self._lines[self._held.events].append(event_record(name, **details))

    def step(self, step: Step) -> None:
        self._lines[self._held.train_log].append(step.to_json())

    def sample(self, sample: SystemSample) -> None:
        self._samples.append({"v": 1, **to_json(sample)})

    def queue(self, record: dict[str, object]) -> None:
        """Append a line to the queue; written before the next state."""
        self._lines[log_path(self._run.path.parent)].append(record)

    def state(self, state: RunState) -> None:
        self._state = state

    def flush(self) -> bool:
        """Write pending lines and state; False if some of it, samples aside, cannot be written."""
        self.trouble = None
        self._write_lines(self._system, self._samples)
        written = [self._write_lines(path, lines) for path, lines in self._lines.items()]
        all_written = all(written)
        # The state comes last: when it says that the run has ended, every line is there.
        return self._write_state(all_written) and all_written

    def flush_until(self, deadline_s: float) -> None:
        """Try for up to ``deadline_s`` seconds, so that the last lines of a run are not lost.

        After that, write at least the state, if the directory still exists.
        """
        end = time.monotonic() + deadline_s
        while not self.flush() and not self._is_deleted():
            if time.monotonic() >= end:
                if self._state is not None:
                    state = self._state
                    reason = f"{state.reason or state.state}; cannot write {self.trouble}"
                    with contextlib.suppress(OSError):
                        write_state(self._held, state.evolve(reason=reason))
                return
            time.sleep(0.5)

    def _is_deleted(self) -> bool:
        try:
            self._held.manifest_file.stat()
        except OSError as error:
            return isinstance(error, FileNotFoundError)
        return False

    def _write_lines(self, path: Path, lines: deque[dict[str, object]]) -> bool:
        try:
            while lines:
                jsonl.append(path, lines[0], _LOCK_PATIENCE_S, again=path in self._doubtful)
                lines.popleft()
                self._doubtful.discard(path)
        except OSError as error:
            self._doubtful.add(path)
            self._note(error)
        return not lines

    def _write_state(self, all_written: bool) -> bool:
        if self._state is None:
            return True
        try:
            if all_written and self._state.has_ended:
                write_end(self._held, self._state)
            else:
                write_state(self._held, self._state_with_trouble())
        except OSError as error:
            self._note(error)
            return False
        if all_written:
            self._state = None
        return True

    def _state_with_trouble(self) -> RunState:
        """The state with the problem of the files; not ended before the last lines are written."""
        assert self._state is not None
        if self.trouble is None:
            return self._state
        complaint = f"cannot write {self.trouble}"
        reason = f"{self._state.reason}; {complaint}" if self._state.reason else complaint
        now, beat = time.time(), time.monotonic()
        state = self._state.evolve(reason=reason, heartbeat=now, beat=beat)
        return state.evolve(state="stopping", ended=None) if state.has_ended else state

    def _note(self, error: OSError) -> None:
        name = str(error.filename or self._run.path)
        name = name.replace(str(self._held.path), str(self._run.path), 1)
        self.trouble, self.passes = f"{name}: {error.strerror}", files.is_trouble(error)
