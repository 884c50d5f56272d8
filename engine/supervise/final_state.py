"""Decide the final state of a run and its reason, from what is known when it ends.

``final_state`` decides for a run whose trainer has ended; the first row that applies counts:

| evidence                                                   | state    | reason            |
|------------------------------------------------------------|----------|-------------------|
| it ran elsewhere, and how it ended is not known            | lost     | the follower's    |
| the same, but its last step was logged                     | finished | the follower's    |
| it was adopted, and left running                           | lost     | the follower's    |
| it ran elsewhere and failed there                          | failed   | the follower's    |
| exit code 0, validates only, a validation is logged        | finished | its reward        |
| exit code 0, validates only, none is logged                | failed   | what is missing   |
| exit code 0, last step reached or its number unknown       | finished | none              |
| exit code 0, no step, last step's checkpoint complete      | finished | nothing to train  |
| exit code 0, last step not reached, nobody stopped the run | failed   | the step reached  |
| somebody stopped the run                                   | finished | who, at what step |
| another exit code, but the last step's checkpoint complete | finished | teardown crash    |
| a signal from outside (SIGKILL, SIGINT, SIGTERM, SIGHUP)   | failed   | the signal        |
| another exit code or signal                                | failed   | the console's     |

The other ends have no trainer to judge: the supervisor records a run that never started
(``Supervisor._never_start``) and its own crash (``give_up``). A supervisor that died leaves a run
that readers observe as ``lost`` (``runs.state.observe``), and that the next command finalizes
(``finalize``).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.follow import last_lines
from engine.base.masking import mask_text
from engine.base.quantities import format_size
from engine.base.typed import read_lines
from engine.run.history.reward_records import RewardRecord
from engine.run.run import Attempt, Run
from engine.run.state import StateName
from engine.supervise.follower import HERE, Report

_SIGNALS_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGINT", "SIGTERM", "SIGHUP"})
_INTERRUPTION_CODES = {128 + number: number.name for number in (signal.SIGINT, signal.SIGTERM)}


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
        """Whether a signal from outside ended it: then its console does not say why."""
        return self.signal in _SIGNALS_FROM_OUTSIDE or self.code in _INTERRUPTION_CODES

    def phrase(self) -> str:
        if self.signal == "SIGKILL":
            return "killed by SIGKILL (by hand, or out of memory?)"
        if self.signal is not None:
            return f"killed by {self.signal}{' from outside' if self.from_outside else ''}"
        if self.code in _INTERRUPTION_CODES:
            return f"ended by {_INTERRUPTION_CODES[self.code]} from outside (exit code {self.code})"
        return f"exit code {self.code}"


@dataclass(frozen=True)
class Evidence:
    """What is known when the trainer has ended."""

    exit: Exit
    stopped_by: str | None
    """Who stopped the run; None if nobody did."""
    step: int | None
    total_steps: int | None
    """0 for a run that only validates."""
    checkpoint_complete: bool
    attempt: Attempt
    checkpoints: Path
    """The folder that the run saves to."""
    validation: float | None = None
    """The reward of its last validation."""
    report: Report = HERE
    """The last one about the run, from its host."""
    trouble: str | None = None
    """What the supervisor cannot write or read, and why; a full disk of the run."""

    @property
    def validates_only(self) -> bool:
        return self.total_steps == 0

    @property
    def reached_end(self) -> bool:
        if self.validates_only:
            return self.validation is not None
        if self.total_steps is None or self.step is None:
            return False
        return self.step >= self.total_steps

    @property
    def progress(self) -> str:
        if self.step is None:
            return "before the first step"
        total = "" if self.total_steps is None else f" of {self.total_steps}"
        return f"at step {self.step}{total}"


def final_state(evidence: Evidence) -> tuple[StateName, str | None]:
    """Return the final state and its reason: the table at the top of this file."""
    phrase, progress = evidence.exit.phrase(), evidence.progress
    if end := _end_elsewhere(evidence, evidence.report):
        return end
    if evidence.exit.code == 0:
        if evidence.validates_only:
            if evidence.validation is None:
                return _failed("exit code 0, but no validation was logged", evidence)
            reward = f"reward {evidence.validation:.4g}"
            return "finished", f"validated only (trainer.val_only=true): {reward}"
        if evidence.reached_end or evidence.total_steps is None:
            return "finished", None
        if not evidence.step and evidence.checkpoint_complete:
            return "finished", "nothing to train: the last step was trained before"
        if evidence.stopped_by is None:
            return _failed(f"exit code 0, but ended {progress}", evidence)
    if evidence.stopped_by is not None:
        return "finished", f"stopped by {evidence.stopped_by} {progress}"
    if evidence.reached_end and (evidence.validates_only or evidence.checkpoint_complete):
        return "finished", f"teardown crash: {phrase} after the last step"
    if evidence.exit.from_outside:
        return _failed(f"{phrase} {progress}", evidence)
    cause = find_failure_reason(evidence.attempt, evidence.checkpoints)
    return _failed(f"{phrase} {progress}: {cause}" if cause else f"{phrase} {progress}", evidence)


def _end_elsewhere(evidence: Evidence, report: Report) -> tuple[StateName, str | None] | None:
    """The end of a run elsewhere where the exit code of its follower does not tell it."""
    if report.outcome == "failed":
        return _failed(f"{report.reason} {evidence.progress}", evidence)
    if report.outcome == "unknown" and evidence.reached_end:
        return "finished", f"reached its last step; {report.reason}"
    if report.outcome in ("unknown", "left"):
        return "lost", f"{report.reason}; last seen {evidence.progress}"
    if report.outcome == "stopped" and evidence.stopped_by is not None:
        return "finished", f"stopped by {evidence.stopped_by} {evidence.progress}"
    if report.outcome is None:
        phrase = evidence.exit.phrase()
        return "lost", f"what followed {report.where} ended ({phrase}); it may still run"
    return None


def _failed(reason: str, evidence: Evidence) -> tuple[StateName, str]:
    """Add what cannot be written: a full disk is often why the run failed."""
    return "failed", f"{reason}; {evidence.trouble}" if evidence.trouble else reason


_LINES = 5000
_BYTES = 1 << 20
_MAX_CHARACTERS = 300
_FULL_BYTES = 1 << 20
"""A disk with less room than this cannot hold a checkpoint's next block."""

_ERROR = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Killed))(?:: ?|\((?=['\"]))(.*)$"
)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_WORKER_PREFIX = re.compile(r"^(?:\([^)]*pid=\d+[^)]*\)|\[rank\d+\]:)\s*")
_TORCH_WRITER = "enforce fail at inline_container.cc"
_RANK = re.compile(r"^rank\s*: (\d+)")
_SIGNALLED = re.compile(r"^traceback : Signal \d+ \((SIG\w+)\) received by PID (\d+)")


def find_failure_reason(attempt: Attempt, checkpoints: Path) -> str | None:
    """Find the cause of a failure in the attempt's files; the first of these that applies.

    ``checkpoints`` is the folder that the run saves to. At most 300 characters.
    """
    raw_lines = last_lines(attempt.console, _LINES, _BYTES)
    decoded = (_CONTROL.sub("", raw.decode("utf-8", "replace")) for raw in raw_lines)
    lines = [_WORKER_PREFIX.sub("", line).strip() for line in decoded]
    reason = (
        _full_disk(lines, checkpoints)
        or _dead_service(lines)
        or _dead_actor(lines)
        or _dead_rank(lines)
        or _no_rewards(lines, attempt.reward)
        or next((line for line in reversed(lines) if _ERROR.match(line)), None)
    )
    return reason and mask_text(reason)[:_MAX_CHARACTERS]


def _full_disk(lines: Sequence[str], checkpoints: Path) -> str | None:
    """A full disk. torch's "unexpected pos 128 vs 0" does not name it as the cause."""
    is_named = any("No space left on device" in line for line in lines)
    if not is_named and not any(_TORCH_WRITER in line for line in lines):
        return None
    try:
        free = shutil.disk_usage(checkpoints).free
        room = f"{format_size(free)} free at {checkpoints}"
    except OSError:
        free, room = _FULL_BYTES, f"checkpoints go to {checkpoints}"
    if is_named:
        return f"no space left on device; {room}"
    if free < _FULL_BYTES:
        return f"a checkpoint could not be written: the disk is full; {room}"
    return None


def full_disk(held: Run, run: Run) -> str | None:
    """A full file system of the run: its trainer may have failed of it without a word."""
    try:
        free = shutil.disk_usage(held.path).free
    except OSError:
        return None
    room = f"{format_size(free)} free at {run.path}"
    return f"no space left on device; {room}" if free < _FULL_BYTES else None


def _dead_service(lines: Sequence[str]) -> str | None:
    if any("GCS may have been killed" in line for line in lines):
        return "Ray's control service (gcs_server) died or was killed"
    if any("the zygote that forks Ray's workers died" in line for line in lines):
        return "the zygote that forks Ray's workers died or was killed"
    if any("NodeDiedError" in line for line in lines):
        return "Ray's node service (raylet) died or was killed"
    return None


def _dead_actor(lines: Sequence[str]) -> str | None:
    """The first actor that died without an error of its own."""
    for index, line in enumerate(lines):
        if "ActorDiedError: The actor died unexpectedly" not in line:
            continue
        fields = (text.partition(": ") for text in lines[index + 1 : index + 8])
        about = {key: value for key, separator, value in fields if separator}
        name = about.get("class_name", "an actor").rpartition(".")[2]
        pid = f" (pid {about['pid']})" if "pid" in about else ""
        return f"Ray worker {name}{pid} was killed (SIGKILL, out of memory?) or crashed"
    return None


def _dead_rank(lines: Sequence[str]) -> str | None:
    """The rank that torchrun names as the first to fail, if a signal ended it."""
    start = next((i for i, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if start is None:
        return None
    rank = "?"
    for line in lines[start : start + 10]:
        if match := _RANK.match(line):
            rank = match.group(1)
        if match := _SIGNALLED.match(line):
            return f"rank {rank} (pid {match.group(2)}) was killed by {match.group(1)}"
    return None


def _no_rewards(lines: Sequence[str], reward: Path) -> str | None:
    """The number of rollouts without a reward, and their most frequent error."""
    message = next((line for line in reversed(lines) if "TooFewRewardsError: " in line), None)
    if message is None:
        return None
    summary = message.partition("TooFewRewardsError: ")[2].partition(";")[0]
    errors = (record.error for record in read_lines(reward, RewardRecord))
    counts = Counter(f"{error.kind}: {error.message}" for error in errors if error is not None)
    return f"{summary}; {counts.most_common(1)[0][0]}" if counts else summary
