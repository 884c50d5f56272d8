"""How a run ended, judged from its exit, its last step, its checkpoint and its last words."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base import jsonl
from engine.base.follow import last_lines
from engine.base.masking import mask_text
from engine.runs.rundir import Attempt
from engine.runs.state import StateName

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
    """Who stopped the run; None if nobody did."""
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
    cause = find_failure_reason(evidence.attempt, evidence.checkpoints)
    return "failed", f"{phrase}: {cause}" if cause else phrase


def _evaluated(evidence: Evidence) -> str:
    return f"validated only (trainer.val_only=true): reward {evidence.validation:.4g}"


def _progress(step: int | None, total: int | None) -> str:
    if step is None:
        return "before the first step"
    return f"at step {step} of {total}" if total is not None else f"at step {step}"


_LINES = 5000
_BYTES = 1 << 20
_LONGEST = 300
_FULL_BYTES = 1 << 20
"""A disk with less room than this cannot hold a checkpoint's next block."""

_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Killed)): ?(.*)$")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_WORKER_PREFIX = re.compile(r"^\([^)]*pid=\d+[^)]*\)\s*")
_TORCH_WRITER = "enforce fail at inline_container.cc"
_RANK = re.compile(r"^rank\s*: (\d+)")
_SIGNALLED = re.compile(r"^traceback : Signal \d+ \((SIG\w+)\) received by PID (\d+)")


def find_failure_reason(attempt: Attempt, checkpoints: Path) -> str | None:
    """The cause of the failure, from the attempt's files, or None. At most 300 characters.

    ``checkpoints`` is the folder the run saves to.
    """
    lines = [_plain(raw) for raw in last_lines(attempt.console, _LINES, _BYTES)]
    reason = (
        _full_disk(lines, checkpoints)
        or _dead_service(lines)
        or _dead_actor(lines)
        or _dead_rank(lines)
        or _no_rewards(lines, attempt.reward)
        or _last_error(lines)
    )
    return reason and mask_text(reason)[:_LONGEST]


def _plain(raw: bytes) -> str:
    """A console line without colors and without Ray's ``(Actor pid=1)``."""
    return _WORKER_PREFIX.sub("", _CONTROL.sub("", raw.decode("utf-8", "replace"))).strip()


def _full_disk(lines: Sequence[str], checkpoints: Path) -> str | None:
    """A full disk, also behind torch's "unexpected pos 128 vs 0", which does not name the cause."""
    if any("No space left on device" in line for line in lines):
        return f"no space left on device; {_room(checkpoints)}"
    if any(_TORCH_WRITER in line for line in lines) and _is_full(checkpoints):
        return f"a checkpoint could not be written: the disk is full; {_room(checkpoints)}"
    return None


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
        about = dict(_fields(lines[index + 1 : index + 8]))
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
    counted = next((line for line in reversed(lines) if "TooFewRewardsError: " in line), None)
    if counted is None:
        return None
    summary = counted.partition("TooFewRewardsError: ")[2].partition(";")[0]
    errors = Counter(_reward_errors(reward)).most_common(1)
    return f"{summary}; {errors[0][0]}" if errors else summary


def _reward_errors(reward: Path) -> Iterator[str]:
    for record in jsonl.read(reward):
        error = record.get("error")
        if isinstance(error, dict):
            yield f"{jsonl.line(error.get('kind'))}: {jsonl.line(error.get('message'))}"


def _last_error(lines: Sequence[str]) -> str | None:
    return next((line for line in reversed(lines) if _ERROR.match(line)), None)


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, separator, value = line.partition(": ")
        if separator:
            yield key, value


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return False


def _room(folder: Path) -> str:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return f"checkpoints go to {folder}"
    return f"{free / 2**20:.0f} MiB free at {folder}"
