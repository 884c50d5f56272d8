"""Where the processes of a run are right now: ``py-spy dump``, when it is allowed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from engine.base import files

_TIMEOUT_S = 20.0


class Dumps:
    """Stacks of Python processes, each taken once, within twenty seconds for all of them: the
    supervisor waits for them."""

    def __init__(self) -> None:
        self._tool = _py_spy()
        self._deadline = time.monotonic() + _TIMEOUT_S
        self._taken: dict[int, str | None] = {}

    def of(self, pid: int) -> str | None:
        """None when nothing can be read: no py-spy, no permission, no Python process."""
        if self._tool is None:
            return None
        if pid not in self._taken:
            self._taken[pid] = _stack(self._tool, pid, self._deadline)
        return self._taken[pid]


def write(target: Path, parts: Iterable[tuple[str, str | None]]) -> None:
    """Keep stacks, each below a line that says whose it is."""
    text = "\n\n".join(f"== {title}\n{stack or '(no stack)'}" for title, stack in parts)
    if text:
        files.write_atomic(target, text)


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
