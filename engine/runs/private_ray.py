"""The directory of an attempt's private Ray instance: sockets, logs and Ray's own session files.

Ray wants a short path, because that of a Unix socket may have 107 bytes, so it cannot lie in the
run directory. The attempt records where it is, and it carries a marker that names the attempt:
whoever tidies up after a killed run finds exactly its directory and removes no other.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from engine.runs.processes import members
from engine.runs.rundir import RunDir, folder_names

PREFIX = "gr-"
RECORD = "ray_dir.txt"
MARKER = "grubrics_attempt.txt"
# Of a socket's path Ray takes some 70 bytes below its directory.
LONGEST_BASE = 30


def create(attempt: Path) -> Path:
    """A new directory for ``attempt``'s Ray, for this user alone. Recorded before it exists."""
    base = tempfile.gettempdir()
    if len(base) >= LONGEST_BASE:
        base = "/tmp"
    made = Path(base, PREFIX + secrets.token_hex(4))
    (attempt / RECORD).write_text(f"{made}\n", encoding="utf-8")
    made.mkdir(mode=0o700)
    (made / MARKER).write_text(str(attempt.resolve()), encoding="utf-8")
    return made


def remove(attempt: Path) -> Path | None:
    """Remove what ``create`` made for ``attempt``; the directory, or None when there was none.

    Only when nothing of the attempt runs any more. A directory without our marker stays.
    """
    found = directory(attempt)
    if found is not None:
        shutil.rmtree(found, ignore_errors=True)
    return found


def remove_all(run: RunDir) -> None:
    """Remove those of every attempt of a run of which no process is left."""
    for attempt in run.attempts():
        remove(attempt.path)


def leftovers(root: Path) -> list[Path]:
    """Attempts below ``root`` that still have such a directory, and no process of their run."""
    found = []
    for run in (RunDir(root / name) for name in folder_names(root)):
        # Looked at before the processes: an attempt that starts meanwhile is not among them.
        holding = [attempt.path for attempt in run.attempts() if directory(attempt.path)]
        if holding and not members(run):
            found += holding
    return found


def directory(attempt: Path) -> Path | None:
    """Where ``attempt``'s private Ray is or was; None when nothing of it is left."""
    recorded = _recorded(attempt)
    return recorded if recorded is not None and _carries_marker(recorded, attempt) else None


def _recorded(attempt: Path) -> Path | None:
    try:
        return Path((attempt / RECORD).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None


def _carries_marker(path: Path, attempt: Path) -> bool:
    """Whether it is a real directory of this user, made for ``attempt``. Follows no link."""
    try:
        found = path.lstat()
        marker = os.open(path / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    with os.fdopen(marker, encoding="utf-8", errors="replace") as text:
        named = text.read()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and path.name.startswith(PREFIX) and named == str(attempt.resolve())
