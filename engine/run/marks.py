"""The mark of a run's processes: variables in their environment that identify the run.

A pid in a file of the run is only a number that anybody could have written. A process belongs to a
run if its environment, which only its owner can set, carries the run's mark: a random text that the
launch wrote to the manifest, and the identity (device, inode) of the run's folder. A moved run
keeps its processes; a copy, which has the same manifest, never gets any. For a run without such a
text, the path of the folder identifies its processes.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from engine.base import files
from engine.run.manifest import Place
from engine.run.run import (
    ATTEMPT_DIR_VARIABLE,
    MARK_VARIABLE,
    ON_CLUSTER_VARIABLE,
    RUN_ID_VARIABLE,
    SUPERVISES_VARIABLE,
    Run,
)

_SUPERVISOR = b"engine.supervise.supervisor"
"""The command of a supervisor."""


@dataclass(frozen=True)
class Mark:
    """The run that a process was started for. ``attempt`` is the attempt's directory at that time;
    ``text`` is that of ``mark_of``, empty for a run whose manifest has none."""

    attempt: Path
    text: str = ""

    @property
    def directory(self) -> Path:
        """The run's directory as it was when the process started."""
        return self.attempt.parent

    def is_of(self, run: Run) -> bool:
        """Whether the process belongs to ``run``, even if the run was moved since."""
        if not self.text:
            return _is_same_folder(self.directory, run.path)
        return names(self.text, run, self.directory)

    def is_in_place(self) -> bool:
        """Whether the run is still where it was when the process started."""
        original = Run(self.directory)
        return original.manifest_file.exists() and self.is_of(original)


def new_mark() -> str:
    """A mark that no other run has."""
    return secrets.token_hex(16)


def mark_of(run: Run) -> str:
    """What a process of the run carries: ``text@device:inode``; empty for a run without a text."""
    text, folder = run.read_manifest().mark, os.stat(run.path)  # noqa: PTH116
    return f"{text}@{folder.st_dev}:{folder.st_ino}" if text else ""


def names(mark: str, run: Run, directory: Path | None = None) -> bool:
    """Whether what a process carries names this very run, and no copy of it.

    In ``directory``, where the process was started, the inode decides: a new mount changes the
    number of the device. Of a folder that is away or cannot be read, its path decides.
    """
    text, _, identity = mark.partition("@")
    is_in_place = directory is not None and _is_same_folder(directory, run.path)
    if run.read_manifest().mark not in (None, text):
        return False
    try:
        folder = os.stat(run.path)  # noqa: PTH116
    except OSError:
        return is_in_place
    device, _, inode = identity.partition(":")
    return str(folder.st_ino) == inode and (is_in_place or str(folder.st_dev) == device)


def place_of(run: Run, directory: Path) -> Place:
    """Which folder a new run is, for its manifest; ``directory`` is where it is going to be."""
    folder = run.path.stat()
    return Place(str(directory.absolute()), f"{folder.st_dev}:{folder.st_ino}")


def is_copy(run: Run) -> bool:
    """Whether a run is a copy of the launched one: jobs and programs that its files name belong to
    the original. A moved run is not a copy."""
    manifest = run.read_manifest()
    place = manifest.folder
    if place is None:  # The manifest does not say.
        return False
    return not names(f"{manifest.mark or ''}@{place.inode}", run, Path(place.path))


def read_mark(pid: int) -> Mark | None:
    """The mark of a run's process; None for other processes and unreadable ones.

    A process of a Ray cluster belongs to the cluster, also on this machine.
    """
    variables = read_environment(pid, ATTEMPT_DIR_VARIABLE)
    if not variables or ON_CLUSTER_VARIABLE in variables:
        return None
    mark = Mark(Path(variables[ATTEMPT_DIR_VARIABLE]), variables.get(MARK_VARIABLE, ""))
    return mark if variables.get(RUN_ID_VARIABLE) == mark.directory.name else None


def supervises(pid: int, run: Run) -> bool:
    """Whether a process is a supervisor of ``run``."""
    supervised = read_environment(pid, SUPERVISES_VARIABLE).get(SUPERVISES_VARIABLE, "")
    if "@" in supervised:
        return names(supervised, run)
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
    except OSError as error:
        if files.is_trouble(error):
            raise
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
