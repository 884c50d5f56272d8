"""The directory of an attempt's private Ray instance: sockets, logs and Ray's own session files.

Ray wants a short path, because that of a Unix socket may have 107 bytes, so it cannot lie in the
run directory. The attempt records where it is, and it carries a marker with the mark of the run:
whoever tidies up after a killed run finds exactly its directory and removes no other.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from engine.base import files
from engine.run.marks import Mark
from engine.run.processes import members
from engine.run.run import MARK_VARIABLE, Run, folder_names
from engine.run.trust import objection

PREFIX = "gr-"
RECORD = "ray_dir.txt"
MARKER = "grubrics_attempt.txt"
_LONGEST = 4096
# Of a socket's path Ray takes some 70 bytes below its directory.
LONGEST_BASE = 30


def create(attempt: Path) -> Path:
    """A new directory for ``attempt``'s Ray, for this user alone. Recorded before it exists."""
    base = tempfile.gettempdir()
    if len(base) >= LONGEST_BASE:
        base = "/tmp"
    made = Path(base, PREFIX + secrets.token_hex(4))
    files.write_atomic(attempt / RECORD, f"{made}\n")
    made.mkdir(mode=0o700)
    mark = os.environ.get(MARK_VARIABLE, "")
    files.write_atomic(made / MARKER, f"{attempt.resolve()}\n{mark}\n")
    return made


def remove(attempt: Path) -> Path | None:
    """Remove the directory that ``create`` made for ``attempt``, and return it, or None.

    Call it only when no process of the attempt is left. A directory without our marker stays.
    """
    ray_directory = directory(attempt)
    if ray_directory is not None:
        shutil.rmtree(ray_directory, ignore_errors=True)
    return ray_directory


def remove_all(run: Run) -> None:
    """Remove the directories of all attempts of a run without processes."""
    for attempt in run.attempts():
        remove(attempt.path)


def find_orphans(root: Path) -> list[Path]:
    """Attempts below ``root`` that still have such a directory, and no process of their run.

    Attempts of runs that are not trusted are left out.
    """
    attempts = []
    for run in (Run(root / name) for name in folder_names(root)):
        # Read before the processes: an attempt that starts meanwhile is not among these.
        holding = [attempt.path for attempt in run.attempts() if directory(attempt.path)]
        if holding and not members(run) and objection(run) is None:
            attempts += holding
    return attempts


def directory(attempt: Path) -> Path | None:
    """The directory of ``attempt``'s private Ray; None if it does not exist."""
    if attempt.is_symlink():
        return None
    try:
        recorded = Path(_text(attempt / RECORD).strip())
    except (OSError, ValueError):
        return None
    return recorded if _carries_marker(recorded, attempt) else None


def _carries_marker(path: Path, attempt: Path) -> bool:
    """Whether it is a real directory of this user, made for ``attempt``. Follows no link."""
    try:
        status = path.lstat()
        named, _, text = _text(path / MARKER).partition("\n")
    except (OSError, ValueError):
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    mark = Mark(Path(named), text.strip())
    is_its = mark.attempt.name == attempt.name and mark.is_of(Run(attempt.parent))
    return ours and path.name.startswith(PREFIX) and is_its


def _text(path: Path) -> str:
    with os.fdopen(files.open_descriptor(path, links=False), "rb") as handle:
        return os.fsdecode(handle.read(_LONGEST))
