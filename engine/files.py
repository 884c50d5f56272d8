"""Opening and creating files in folders that somebody else may have filled or may look into.

Nothing here follows a link out of a run directory, waits for a pipe or reads a device. A file is as
readable as the folder it is created in, and never writable by others: what is in a private folder
is private itself, whatever the umask.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_ATTEMPT = re.compile(r"attempt_\d+")
_FOLDERS_OF_A_RUN = ("requests", "code")
_RUN = "manifest.json"


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened to read. OSError for anything else: a pipe would keep its reader.

    A link is followed where a person may have put it, but not inside of a run directory.
    """
    return os.fdopen(open_descriptor(path), "rb")


def open_descriptor(path: Path, *, links: bool = True) -> int:
    """``open_regular`` for who reads with ``os.pread``, or wants no ``links`` followed at all."""
    _refuse_linked_folders(path)
    may_follow = links and not _is_in_run(path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if may_follow else os.O_NOFOLLOW)
    return _checked(os.open(path, flags), path)


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file. OSError for anything else, and EFBIG above ``limit`` bytes."""
    with open_regular(path) as handle:
        if limit is None:
            return handle.read()
        data = handle.read(limit + 1)
    if len(data) > limit:
        text = f"larger than the {limit >> 10} KiB that such a file may have"
        raise OSError(errno.EFBIG, text, str(path))
    return data


def open_to_append(path: Path) -> int:
    """The descriptor of a regular file to append to, created when it is missing.

    Follows no link. OSError for what is no regular file.
    """
    _refuse_linked_folders(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _checked(os.open(path, flags, mode_in(path.parent)), path)


def open_to_overwrite(path: Path) -> int:
    """The descriptor of a regular file that exists, to read and write. Follows no link."""
    _refuse_linked_folders(path)
    return _checked(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), path)


def open_lock(path: Path) -> int:
    """The descriptor of a file that is only locked: whoever may open it may hold everybody up, so
    it is its owner's alone, also in a folder that a group shares."""
    _refuse_linked_folders(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _checked(os.open(path, flags, 0o600), path)


def write_atomic(path: Path, text: str) -> None:
    """Replace ``path`` so that a reader sees the old or the new text, never a part of either."""
    _refuse_linked_folders(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
            os.fchmod(handle.fileno(), mode_in(path.parent))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Create a folder as readable as its parent; an existing folder stays as it is.

    OSError for a link.
    """
    _refuse_linked_folders(path)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise
        return
    above = path.parent.stat().st_mode
    if above & 0o055:
        path.chmod(0o700 | above & 0o055 | path.stat().st_mode & stat.S_ISGID)


def make_private(folder: Path) -> None:
    """Make sure that a folder is there and is this user's alone. OSError for somebody else's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def tighten(folder: Path) -> None:
    """Make what is in a folder no more readable than the folder, and writable by its owner alone.
    What belongs to somebody else stays as it is."""
    readable = folder.stat().st_mode & 0o055
    for path in _paths_below(folder):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            status = os.fstat(descriptor)
            is_folder = stat.S_ISDIR(status.st_mode)
            if (is_folder or stat.S_ISREG(status.st_mode)) and status.st_uid == os.geteuid():
                others = readable | stat.S_ISGID if is_folder else readable & 0o044
                os.fchmod(descriptor, status.st_mode & (0o700 | others))
        finally:
            os.close(descriptor)


def mode_in(folder: Path) -> int:
    """The mode of a new file in ``folder``: who may read the folder may read the file."""
    return 0o600 | folder.stat().st_mode & 0o044


def _paths_below(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        yield from (f"{parent}/{name}" for name in (*folders, *names))


def _checked(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def _is_in_run(path: Path) -> bool:
    return os.path.lexists(path.parent / _RUN) or _first_folder(path) is not None


def _refuse_linked_folders(path: Path) -> None:
    """The folders of a run are its own: one that is a link would lead out of it."""
    first = _first_folder(path)
    if first is None:
        return
    for folder in (*path.parents[: len(path.parts) - 1 - first], path):
        if folder.is_symlink() and (folder != path or _is_folder_of_run(path.name)):
            raise OSError(errno.ELOOP, "a link where a folder of the run should be", str(folder))


def _first_folder(path: Path) -> int | None:
    """Where in the parts of a path the first folder is that a run made."""
    parts = path.parts
    named = (i for i, part in enumerate(parts) if _is_folder_of_run(part))
    return next((i for i in named if os.path.lexists(Path(*parts[:i]) / _RUN)), None)


def _is_folder_of_run(name: str) -> bool:
    return name in _FOLDERS_OF_A_RUN or _ATTEMPT.fullmatch(name) is not None
