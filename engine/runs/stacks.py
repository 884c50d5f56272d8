"""Where the processes of a run are right now: ``py-spy dump``, when it is allowed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from engine import files
from engine.runs.processes import Identity

_TIMEOUT_S = 20.0
_FRAME = re.compile(r"^\s+(?P<function>\S.*?) \((?P<where>[^()]+:\d+)\)$")
_WAITING = ("wait", "select", "poll", "sleep", "acquire", "get", "recv", "_run_once", "join")


def dump(processes: Iterable[Identity], target: Path) -> str | None:
    """Write the stacks of Python processes to ``target``.

    Returns the innermost telling frame of the first process, or None when nothing can be read
    (no py-spy, no permission, no Python process).
    """
    tool = _py_spy()
    if tool is None:
        return None
    # The supervisor waits for this, so the time is for all of them together.
    deadline = time.monotonic() + _TIMEOUT_S
    stacks = [_stack(tool, process.pid, deadline) for process in processes]
    found = [stack for stack in stacks if stack]
    if not found:
        return None
    files.write_atomic(target, "\n\n".join(found))
    return next((frame for stack in found if (frame := telling_frame(stack))), None)


def telling_frame(stack: str) -> str | None:
    """``function (file:line)`` of the innermost frame that does not merely wait."""
    frames = [match for line in stack.splitlines() if (match := _FRAME.match(line))]
    telling = [frame for frame in frames if frame["function"] not in _WAITING]
    chosen = (telling or frames)[:1]
    return f"{chosen[0]['function']} ({chosen[0]['where']})" if chosen else None


def _py_spy() -> str | None:
    beside_python = Path(sys.executable).with_name("py-spy")
    return str(beside_python) if beside_python.exists() else shutil.which("py-spy")


def _stack(tool: str, pid: int, deadline: float) -> str | None:
    command = [tool, "dump", "--nonblocking", "--pid", str(pid)]
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
