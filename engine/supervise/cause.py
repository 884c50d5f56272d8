"""Why a trainer failed, in one line.

The last error of a console is often only a consequence: verl reports a killed rollout server as
rollouts without a reward, and torch a full disk as a failed write. The causes that stand behind
others are looked for first.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.base import jsonl
from engine.base.masking import mask_text
from engine.base.tail import last_lines
from engine.runs.rundir import Attempt

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


def cause(attempt: Attempt, checkpoints: Path) -> str | None:
    """The cause as the attempt's files tell it; None when they do not. At most 300 characters.

    ``checkpoints`` is the folder the run saves to.
    """
    lines = [_plain(raw) for raw in last_lines(attempt.console, _LINES, _BYTES)]
    found = (
        _full_disk(lines, checkpoints)
        or _dead_service(lines)
        or _dead_actor(lines)
        or _dead_rank(lines)
        or _no_rewards(lines, attempt.reward)
        or _last_error(lines)
    )
    return found and mask_text(found)[:_LONGEST]


def _plain(raw: bytes) -> str:
    """A console line without colours and without Ray's ``(Actor pid=1)``."""
    return _WORKER_PREFIX.sub("", _CONTROL.sub("", raw.decode("utf-8", "replace"))).strip()


def _full_disk(lines: Sequence[str], checkpoints: Path) -> str | None:
    """torch's own writer says "unexpected pos 128 vs 0" and not why; the disk does."""
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
    """The first actor that was gone without an error of its own."""
    for index, line in enumerate(lines):
        if "ActorDiedError: The actor died unexpectedly" not in line:
            continue
        about = dict(_fields(lines[index + 1 : index + 8]))
        name = about.get("class_name", "an actor").rpartition(".")[2]
        pid = f" (pid {about['pid']})" if "pid" in about else ""
        return f"Ray worker {name}{pid} was killed (SIGKILL, out of memory?) or crashed"
    return None


def _dead_rank(lines: Sequence[str]) -> str | None:
    """The rank that torchrun names as the first to fail, when a signal ended it."""
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
    """What most of the rollouts without a reward died of, behind the error that counts them."""
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
