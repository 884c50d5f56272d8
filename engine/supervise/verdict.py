"""How a run ended, judged from its exit, its last step, its checkpoint and its last words."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from engine.runs.rundir import Attempt
from engine.runs.state import StateName
from engine.supervise.cause import cause

_SENT = frozenset({"SIGKILL", "SIGINT", "SIGTERM", "SIGHUP"})
_INTERRUPTED = {128 + number: number.name for number in (signal.SIGINT, signal.SIGTERM)}


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

    @property
    def from_outside(self) -> bool:
        """Whether a signal from outside ended it: what its console says is not why."""
        return self.signal in _SENT or self.code in _INTERRUPTED

    def phrase(self) -> str:
        if self.signal == "SIGKILL":
            return "killed by SIGKILL (by hand, or out of memory?)"
        if self.signal is not None:
            return f"killed by {self.signal}{' from outside' if self.from_outside else ''}"
        if self.code in _INTERRUPTED:
            return f"ended by {_INTERRUPTED[self.code]} from outside (exit code {self.code})"
        return f"exit code {self.code}"


@dataclass(frozen=True)
class Evidence:
    """What is known when the trainer has ended."""

    exit: Exit
    stopped_by: str | None
    """Who asked for the end; None when nobody did."""
    step: int | None
    total_steps: int | None
    """0 for a run that only validates."""
    checkpoint_complete: bool
    attempt: Attempt
    checkpoints: Path
    validation: float | None = None
    """The reward of its last validation."""

    @property
    def reached_end(self) -> bool:
        if self.total_steps == 0:
            return self.validation is not None
        if self.total_steps is None or self.step is None:
            return False
        return self.step >= self.total_steps


def judge(evidence: Evidence) -> tuple[StateName, str | None]:
    """The final state and its reason."""
    progress = _progress(evidence.step, evidence.total_steps)
    evaluates = evidence.total_steps == 0
    if evidence.exit.code == 0:
        if evidence.reached_end or evidence.total_steps is None:
            return "finished", _evaluated(evidence) if evaluates else None
        if evaluates:
            return "failed", "exit code 0, but no validation was logged"
        if evidence.stopped_by is None:
            return "failed", f"exit code 0, but ended {progress}"
    if evidence.stopped_by is not None:
        return "finished", f"stopped by {evidence.stopped_by} {progress}"
    if evidence.reached_end and (evaluates or evidence.checkpoint_complete):
        return "finished", f"teardown crash: {evidence.exit.phrase()} after the last step"
    phrase = f"{evidence.exit.phrase()} {progress}"
    if evidence.exit.from_outside:
        return "failed", phrase
    why = cause(evidence.attempt, evidence.checkpoints)
    return "failed", f"{phrase}: {why}" if why else phrase


def _evaluated(evidence: Evidence) -> str:
    return f"validated only (trainer.val_only=true): reward {evidence.validation:.4g}"


def _progress(step: int | None, total: int | None) -> str:
    if step is None:
        return "before the first step"
    return f"at step {step} of {total}" if total is not None else f"at step {step}"
