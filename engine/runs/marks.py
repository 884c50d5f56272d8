"""The mark of a run's processes: variables in their environment that identify the run.

A pid in a file of the run is only a number that anybody could have written. A process belongs to a
run if its environment, which only its owner can set, carries the run's mark: a random text that the
launch wrote to the manifest. The mark does not depend on the path, so a moved run keeps its
processes. For a run without such a text, the run's folder identifies its processes.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from engine.runs.rundir import (
    ATTEMPT_DIR_VARIABLE,
    MARK_VARIABLE,
    ON_CLUSTER_VARIABLE,
    RUN_ID_VARIABLE,
    SUPERVISES_VARIABLE,
    RunDir,
)

_SUPERVISOR = b"engine.supervise.supervisor"
"""The command of a supervisor."""


@dataclass(frozen=True)
class Mark:
    """The run that a process was started for. ``attempt`` is the attempt's directory at that time;
    ``text`` is the run's random text, empty for a run whose manifest has none."""

    attempt: Path
    text: str = ""

    @property
    def directory(self) -> Path:
        """The run's directory as it was when the process started."""
        return self.attempt.parent

    def is_of(self, run: RunDir) -> bool:
        """Whether the process belongs to ``run``, even if the run was moved since.

        A copy of a run has the same mark; the processes belong to the original while it is where
        they were started.
        """
        mark = run.read_mark()
        if _is_same_folder(self.directory, run.path):
            return not self.text or mark in (None, self.text)
        return bool(self.text) and mark == self.text and not self.is_in_place()

    def is_in_place(self) -> bool:
        """Whether the run is still where it was when the process started."""
        original = RunDir(self.directory)
        return original.manifest.exists() and original.read_mark() in (None, self.text or None)


def new_mark() -> str:
    """A mark that no other run has."""
    return secrets.token_hex(16)


def read_mark(pid: int) -> Mark | None:
    """The mark of a run's process; None for other processes and unreadable ones.

    A process of a Ray cluster belongs to the cluster, also on this machine.
    """
    variables = read_environment(pid, ATTEMPT_DIR_VARIABLE)
    if not variables or ON_CLUSTER_VARIABLE in variables:
        return None
    mark = Mark(Path(variables[ATTEMPT_DIR_VARIABLE]), variables.get(MARK_VARIABLE, ""))
    return mark if variables.get(RUN_ID_VARIABLE) == mark.directory.name else None


def supervises(pid: int, run: RunDir) -> bool:
    """Whether a process is a supervisor of ``run``."""
    mark = run.read_mark()
    supervised = read_environment(pid, SUPERVISES_VARIABLE).get(SUPERVISES_VARIABLE)
    if mark is not None and supervised is not None:
        return mark == supervised
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return _SUPERVISOR in words and any(
        _is_same_folder(Path(os.fsdecode(word)), run.path) for word in words if b"/" in word
    )


def read_environment(pid: int, needed: str) -> dict[str, str]:
    """The variables that a process was started with; empty if ``needed`` is not among them."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    if needed.encode() not in environment:
        return {}  # True for nearly every process: splitting its variables costs most.
    pairs = (entry.partition(b"=") for entry in environment.split(b"\0"))
    variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return variables if needed in variables else {}


def _is_same_folder(path: Path, folder: Path) -> bool:
    if path == folder.resolve():
        return True
    try:
        return path.samefile(folder)
    except OSError:
        return False
