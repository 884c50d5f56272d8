"""Open and create files in folders that other users may write to or read.

Nothing here follows a link out of a run directory, waits for a pipe or reads a device. A new file
is as readable as its folder, and never writable by others: files in a private folder are private,
whatever the umask.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FOLDERS_OF_A_RUN = re.compile(r"(?<![^/])(?:requests|code|data|attempt_\d+)(?![^/])")
_RUN = "manifest.json"
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_TROUBLES = frozenset(
    {
        errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EIO, errno.ESTALE,
        errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.ENOLCK, errno.ETIMEDOUT, errno.EREMOTEIO,
        errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOLINK, errno.ENODEV,
    }
)  # fmt: skip


def is_trouble(error: BaseException | None) -> bool:
    """Whether the system could not answer: nothing is known of the file or the process, and the
    same call may succeed later. Any other error is an answer, such as that there is no file."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _TROUBLES
    )


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened to read. OSError for anything else: a pipe would block its reader.

    Links are followed, but not inside a run directory.
    """
    return os.fdopen(open_descriptor(path), "rb")


def open_descriptor(path: Path, *, links: bool = True) -> int:
    """The descriptor of a regular file to read; without ``links``, no link is followed at all."""
    with _folder_of(path) as (folder, is_inside):
        try:
            return _open_in(folder, path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP or not links or is_inside or _holds_run(folder):
                raise
        return _open_in(folder, path, os.O_RDONLY)


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file. OSError for anything else, and EFBIG above ``limit`` bytes."""
    descriptor = open_descriptor(path)
    try:
        # A buffer of the limit's size would take longer than reading a small file.
        block = max(os.fstat(descriptor).st_size, _BLOCK) + 1
        left = sys.maxsize if limit is None else limit + 1
        blocks = []
        while left and (data := os.read(descriptor, min(block, left))):
            blocks.append(data)
            left -= len(data)
    finally:
        os.close(descriptor)
    if limit is not None and not left:
        text = f"larger than the {limit >> 10} KiB that such a file may have"
        raise OSError(errno.EFBIG, text, str(path))
    return b"".join(blocks)


def open_to_append(path: Path) -> int:
    """The descriptor of a regular file to append to, created when it is missing.

    Follows no link. OSError for anything but a regular file.
    """
    with _folder_of(path) as (folder, _):
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        return _open_in(folder, path, flags, _mode_of_file(folder))


def open_to_overwrite(path: Path) -> int:
    """The descriptor of a regular file that exists, to read and write. Follows no link."""
    with _folder_of(path) as (folder, _):
        return _open_in(folder, path, os.O_RDWR | os.O_NOFOLLOW)


def open_lock(path: Path) -> int:
    """The descriptor of a file that is only locked.

    Whoever may open it can block everybody, so it is private to its owner, even in a folder that a
    group shares.
    """
    with _folder_of(path) as (folder, _):
        return _open_in(folder, path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def write_atomic(path: Path, text: str | Iterable[str], *, is_private: bool = False) -> None:
    """Replace ``path`` so that a reader sees the old or the new text, never a part of either.

    ``text`` may be an iterable of its parts, of which memory holds one. A private file is readable
    by its owner only, wherever it is.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _folder_of(path) as (folder, _), errors_name(path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = _open_in(folder, temporary, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
                handle.writelines([text] if isinstance(text, str) else text)
                handle.flush()
                os.fsync(handle.fileno())
                os.fchmod(handle.fileno(), 0o600 if is_private else _mode_of_file(folder))
            os.replace(temporary.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=folder)
            raise


def sync_folder(folder: Path, *, with_files: bool = True) -> None:
    """Have the system write a folder to the disk, after the regular files directly in it that
    belong to this user. OSError when it cannot."""
    with _folder_of(folder / "x") as (above, _):
        descriptor = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=above)
    try:
        with os.scandir(descriptor) as entries:
            found = [entry.name for entry in entries] if with_files else []
        for name in found:
            _sync_in(descriptor, name)
        try:
            os.fsync(descriptor)
        except OSError as error:  # Some network file systems sync no folders.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
    finally:
        os.close(descriptor)


def _sync_in(folder: int, name: str) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return
        file = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write and read, which replaces ``path`` in the end; after an error, nothing is
    left of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _folder_of(path) as (folder, _):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with errors_name(path):
            descriptor = _open_in(folder, temporary, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
                os.fchmod(handle.fileno(), _mode_of_file(folder))
            os.replace(temporary.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=folder)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(path)  # A full disk names no file.
            raise


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Let every OSError name ``path``: a full disk names no file, a temporary file nobody knows."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        if (reason := os.strerror(error.errno or 0)) in (error.strerror or ""):
            error.strerror = reason  # pyarrow writes a sentence around it.
        raise


def make_folder(path: Path) -> None:
    """Create a folder as readable as its parent; an existing folder stays as it is.

    OSError for a link.
    """
    with _folder_of(path) as (above, _), errors_name(path):
        try:
            os.mkdir(path.name, 0o700, dir_fd=above)
        except FileExistsError:
            os.close(_open_folder_in(above, path))
            return
        readable = os.fstat(above).st_mode & 0o055
        if readable:
            folder = os.open(path.name, os.O_RDONLY | _FOLDER, dir_fd=above)
            try:
                os.fchmod(folder, 0o700 | readable | os.fstat(folder).st_mode & stat.S_ISGID)
            finally:
                os.close(folder)


def make_private(folder: Path) -> None:
    """Create a folder, or make it private. OSError for another user's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def tighten(folder: Path) -> None:
    """Make the contents of a folder no more readable than the folder, and writable by the owner
    alone. Files of other users stay as they are."""
    readable = folder.stat().st_mode & 0o055
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for _, folders, names, above in os.fwalk(folder):
        for name in (*folders, *names):
            try:
                descriptor = os.open(name, flags, dir_fd=above)
            except OSError:
                continue
            try:
                _tighten(descriptor, readable)
            finally:
                os.close(descriptor)


def _tighten(descriptor: int, readable: int) -> None:
    status = os.fstat(descriptor)
    is_folder = stat.S_ISDIR(status.st_mode)
    if (is_folder or stat.S_ISREG(status.st_mode)) and status.st_uid == os.geteuid():
        allowed = readable | stat.S_ISGID if is_folder else readable & 0o044
        os.fchmod(descriptor, status.st_mode & (0o700 | allowed))


@contextmanager
def closed_on_error(descriptor: int) -> Iterator[None]:
    """Close an open file if the block raises, so that no trouble leaks descriptors."""
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


@contextmanager
def _folder_of(path: Path) -> Iterator[tuple[int, bool]]:
    """The descriptor of the folder of ``path``, and whether it is inside that of a run.

    Each folder of a run is opened from the one above it, without following links, which could lead
    out of the run. Replacing a folder afterwards has no effect.
    """
    folder, below = _open_root(os.path.dirname(path))  # noqa: PTH120 - a fifth of the time
    try:
        for depth in range(len(below)):
            inner = _open_folder_in(folder, path.parents[len(below) - 1 - depth])
            os.close(folder)
            folder = inner
        yield folder, bool(below)
    finally:
        os.close(folder)


def _open_root(folder: str) -> tuple[int, list[str]]:
    """The run that a folder belongs to and the names from there down to it; else the folder."""
    for inner in _FOLDERS_OF_A_RUN.finditer(folder):
        try:
            root = os.open(folder[: inner.start()] or ".", _LOOK)
        except OSError as error:
            if is_trouble(error):
                raise
            continue
        with closed_on_error(root):
            if _holds_run(root):
                return root, folder[inner.start() :].split("/")
        os.close(root)
    return os.open(folder or ".", _LOOK), []


def _holds_run(folder: int) -> bool:
    try:
        os.stat(_RUN, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if is_trouble(error):
            raise
        return False
    return True


def _open_folder_in(above: int, path: Path) -> int:
    try:
        return os.open(path.name, os.O_PATH | _FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            status = os.stat(path.name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                text = "a link instead of a folder of the run"
                raise OSError(errno.ELOOP, text, str(path)) from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def _open_in(folder: int, path: Path, flags: int, mode: int = 0) -> int:
    """Open the regular file ``path`` in ``folder``."""
    try:
        flags |= os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name or ".", flags, mode, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    with closed_on_error(descriptor):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def _mode_of_file(folder: int) -> int:
    """The mode of a new file: who may read the folder may read the file."""
    return 0o600 | os.fstat(folder).st_mode & 0o044


_BLOCK = 1 << 16
_SAMPLES = 64


def content_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sampled_hash(path: Path) -> str:
    """SHA-256 of the size, of ``_SAMPLES`` blocks at equal distances and of the last block, in hex.

    For weights: reading all of them would take minutes, and training changes every block.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as handle:
        for number in range(_SAMPLES + 1):
            handle.seek(max(0, size - _BLOCK) * number // _SAMPLES)
            digest.update(handle.read(_BLOCK))
    return digest.hexdigest()


def version_of(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and modification time (ns): changes when the file is written or replaced. None if
    it cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called every few seconds for the life of a run
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def size_of(path: Path) -> int:
    """Bytes of the file; 0 if it is missing or cannot be read."""
    version = version_of(path)
    return 0 if version is None else version[1]


def fingerprints(paths: Iterable[Path | None]) -> dict[str, str]:
    """Content hashes of those ``paths`` that exist, by path."""
    return {str(path): content_hash(path) for path in paths if path is not None and path.is_file()}
