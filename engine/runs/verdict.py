"""How a run ended, judged from its exit, its last step, its checkpoint and its last words."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from engine.runs.state import StateName
from engine.watch.tail import last_lines

_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Killed)): ?(.*)$")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_WORKER_PREFIX = re.compile(r"^\([^)]*pid=\d+[^)]*\)\s*")


@dataclass(frozen=True)
class Exit:
    """How the trainer process ended."""

    code: int | None
    signal: str | None = None

    @classmethod
    def from_status(cls, status: int) -> Exit:
        """From a wait status; a shell would show a signal as 128 + its number."""
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return cls(code)
        return cls(128 - code, signal.Signals(-code).name)

    def phrase(self) -> str:
        return f"killed by {self.signal}" if self.signal else f"exit code {self.code}"


@dataclass(frozen=True)
class Evidence:
    """What is known when the trainer has ended."""

    exit: Exit
    stop_requested: bool
    step: int | None
    total_steps: int | None
    checkpoint_complete: bool
    console: Path


def judge(evidence: Evidence) -> tuple[StateName, str | None]:
    """The final state and its reason."""
    progress = _progress(evidence.step, evidence.total_steps)
    reached_end = (
        evidence.total_steps is not None
        and evidence.step is not None
        and (evidence.step >= evidence.total_steps)
    )
    if evidence.exit.code == 0:
        if reached_end or evidence.total_steps is None:
            return "finished", None
        if not evidence.stop_requested:
            return "failed", f"exit code 0, but ended {progress}"
    if evidence.stop_requested:
        return "finished", f"stopped by user {progress}"
    if reached_end and evidence.checkpoint_complete:
        return "finished", f"teardown crash: {evidence.exit.phrase()} after the last step"
    cause = last_error(evidence.console)
    phrase = f"{evidence.exit.phrase()} {progress}"
    return "failed", f"{phrase}: {cause}" if cause else phrase


def last_error(console: Path) -> str | None:
    """The last ``SomeError: message`` line of a console log, plain and at most 300 characters."""
    for raw in reversed(last_lines(console, 400)):
        line = _WORKER_PREFIX.sub("", _CONTROL.sub("", raw.decode("utf-8", "replace"))).strip()
        if _ERROR.match(line):
            return line[:300]
    return None


def _progress(step: int | None, total: int | None) -> str:
    if step is None:
        return "before the first step"
    return f"at step {step} of {total}" if total is not None else f"at step {step}"
