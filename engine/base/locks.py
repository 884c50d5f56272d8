"""File locks with a timeout: a suspended process never releases its lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from engine.base import files

PATIENCE_S = 30.0
"""A dump of stacks suspends a process for up to 20 s."""
_POLL_S = 0.02


def take(descriptor: int, path: Path, patience_s: float | None = None) -> None:
    """Take the exclusive lock of an open file; closing ``descriptor`` releases it.

    OSError that names the holder's pid if it is not released in time. On a file system without
    locks nothing is locked.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    deadline = time.monotonic() + patience_s
    while not _taken(descriptor):
        if time.monotonic() >= deadline:
            raise OSError(errno.EAGAIN, _complaint(descriptor, patience_s), str(path))
        time.sleep(_POLL_S)


def is_held(path: Path) -> bool:
    """Whether a process holds the flock of a file. Nothing is written, and nobody who takes the
    lock at this moment is refused it for longer than an instant."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except PermissionError:  # The lock of another user.
        return any(_holders(path.stat().st_ino))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # A file system without locks.
        return False
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def held_file(path: Path, patience_s: float | None = None) -> Iterator[None]:
    """Lock ``path``, a file private to its owner, which nobody else can lock.

    Where it belongs to another user, nothing is locked.
    """
    try:
        descriptor = files.open_lock(path)
    except PermissionError:
        yield
        return
    try:
        take(descriptor, path, patience_s)
        yield
    finally:
        with contextlib.suppress(OSError):  # Closing may fail.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _complaint(descriptor: int, patience_s: float) -> str:
    pids = sorted(set(_holders(os.fstat(descriptor).st_ino)))
    holder = f"pid {', '.join(map(str, pids))}" if pids else "a process that is not visible here"
    return f"locked by {holder} for over {patience_s:g} s; resume it (kill -CONT) or end it"


def _holders(inode: int) -> Iterator[int]:
    """PIDs in ``1: POSIX  ADVISORY  WRITE 4242 08:01:131 0 EOF``; a waiter has an arrow there."""
    with contextlib.suppress(OSError), Path("/proc/locks").open(encoding="ascii") as table:
        for line in table:
            words = line.split()
            if len(words) == 8 and words[5].endswith(f":{inode}") and int(words[4]) > 0:
                yield int(words[4])
