"""Waiting for a lock on a file, but never for ever: a stopped process gives none back."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.base import files

PATIENCE_S = 30.0
"""A dump of stacks stops a process for up to twenty."""
_LOOK_S = 0.02

Lock = Callable[[int, int], object]


def take(
    descriptor: int, path: Path, how: Lock = fcntl.lockf, patience_s: float | None = None
) -> None:
    """Take the exclusive lock of an open file; closing ``descriptor`` gives it back.

    OSError that names the holder's pid when nobody gave it back in time. A file system without
    locks is trusted to have one user.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    deadline = time.monotonic() + patience_s
    while not _taken(descriptor, how):
        if time.monotonic() >= deadline:
            raise OSError(errno.EAGAIN, _complaint(descriptor, patience_s), str(path))
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """One user of a folder at a time, for files in it that every write replaces."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        take(descriptor, folder, fcntl.flock)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held_file(path: Path) -> Iterator[None]:
    """One user of ``path`` at a time: a file of its owner's alone, which nobody else can lock."""
    descriptor = files.open_lock(path)
    try:
        take(descriptor, path, fcntl.flock)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, how: Lock) -> bool:
    try:
        how(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _complaint(descriptor: int, patience_s: float) -> str:
    pids = sorted(set(_holders(os.fstat(descriptor).st_ino)))
    who = f"pid {', '.join(map(str, pids))}" if pids else "a process that cannot be seen from here"
    return f"locked by {who} for over {patience_s:g} s; let it go on (kill -CONT) or end it"


def _holders(inode: int) -> Iterator[int]:
    """``1: POSIX  ADVISORY  WRITE 4242 08:01:131 0 EOF``; one who waits has an arrow there."""
    with contextlib.suppress(OSError), Path("/proc/locks").open(encoding="ascii") as table:
        for line in table:
            words = line.split()
            if len(words) == 8 and words[5].endswith(f":{inode}") and int(words[4]) > 0:
                yield int(words[4])
