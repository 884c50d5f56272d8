"""Packages: a run as one zip file that another person can check, unpack and read.

A package unpacks to one folder, ``ID-package``, which is a small project: ``runs/ID``, the run's
evaluations in ``evaluations``, and with ``checkpoints`` its checkpoints. ``SHA256SUMS`` lists every
other file in the format of ``sha256sum``, and ``about.json`` says what was masked and what was
left out. Equal runs give equal bytes: the entries are sorted, and have no times and no owners. The
zip file's comment is the SHA-256 of all bytes before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal

from engine.base import files
from engine.base.errors import UsageError, shorten
from engine.base.masking import mask_text
from engine.measure.folder import evaluations_of
from engine.run.checkpoints.ownership import checkpoint_folder
from engine.run.checkpoints.step_folders import complete_steps
from engine.run.run import Run
from engine.run.state import observed_state
from engine.run.trust import PROOF

SUMS = "SHA256SUMS"
ABOUT = "about.json"
COMMENT = b"sha256:"
"""What the comment of the zip file begins with; 64 hex digits follow."""

_TEXTS = frozenset(
    {".log", ".txt", ".yaml", ".yml", ".py", ".md", ".csv", ".toml", ".err", ".out"}
    | {".json", ".jsonl"}
)
_NOT_PACKED = frozenset({PROOF, "requests", "lock"})
"""A signature and requests that only mean something on this machine, and locks."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip file can hold."""
_LARGE = 1 << 30
"""Bytes from which an entry gets room for sizes above 4 GiB."""
_HEAD = 8192
_BLOCK = 1 << 20
_LONGEST_KEY = 64 << 10
"""Bytes after which a block ends even inside of what looks like a private key."""
_LONGEST_LINE = 64 << 20
_LARGEST_TEXT = 1 << 20
"""Bytes of a checkpoint's text file that is searched for secrets: vocabularies are larger."""


@dataclass(frozen=True)
class Package:
    """What ``write_package`` wrote."""

    path: Path
    sha256: str
    files: int
    bytes: int
    """Of the zip file."""
    masked: tuple[str, ...]
    """Files in which secrets were masked."""
    left_out: tuple[tuple[str, str], ...]
    """Files that are not in it, each with the reason."""
    active_step: int | None
    """The last step of a run that was active, 0 before the first; None for an ended run."""


@dataclass(frozen=True)
class _File:
    name: str
    """In the package's folder."""
    path: Path
    size: int
    """Bytes when the list was made: what an active run appends later is left out."""
    is_checkpoint: bool = False
    head: bytes | None = None
    """The content of a file that an active run replaces."""


@dataclass
class _Packing:
    """A zip file that is being written."""

    archive: zipfile.ZipFile
    folder: str
    sums: dict[str, str] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, blocks: Iterable[bytes], size: int, *, deflate: bool = True) -> None:
        info = zipfile.ZipInfo(f"{self.folder}/{name}", _FIRST_DATE)
        info.create_system = 3  # Unix, wherever it is written.
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        digest = hashlib.sha256()
        # Masking can make a file longer, but not much.
        with self.archive.open(info, "w", force_zip64=size > _LARGE) as entry:
            for block in blocks:
                digest.update(block)
                entry.write(block)
        self.sums[name] = digest.hexdigest()

    def add_file(self, file: _File) -> None:
        """Add a file without its secrets, or note why it is left out."""
        if mask_text(file.name) != file.name:
            self.left_out[mask_text(file.name)] = "its name looks like a secret"
            return
        if not file.name.isprintable() or "\\" in file.name:
            self.left_out[ascii(file.name)] = "systems read its name differently"
            return
        try:
            handle = _open(file)
        except OSError as error:  # Deleted meanwhile, or not a regular file.
            self.left_out[file.name] = error.strerror or str(error)
            return
        with handle:
            self._add_open(file, handle)

    def _add_open(self, file: _File, handle: BinaryIO) -> None:
        if file.is_checkpoint:
            if _has_secret(handle, file):
                self.left_out[file.name] = "it holds a secret, and checkpoints are packed unchanged"
            else:
                blocks = iter(lambda: handle.read(_BLOCK), b"")
                self.add(file.name, blocks, file.size, deflate=file.size <= _LARGEST_TEXT)
            return
        if file.path.suffix not in _TEXTS and _is_binary(handle):
            self.left_out[file.name] = "binary: it cannot be searched for secrets"
            return
        self.add(file.name, self._masked(handle, file), file.size)

    def _masked(self, handle: BinaryIO, file: _File) -> Iterator[bytes]:
        for block in _blocks(handle, file):
            masked = _mask(block)
            if masked != block and file.name not in self.masked:
                self.masked.append(file.name)
            yield masked


def write_package(
    run: Run, out: Path, *, evaluations: Path, checkpoints: bool = False, force: bool = False
) -> Package:
    """Pack a run, the evaluations of it in the folder ``evaluations``, and its checkpoints.

    An active run is packed as of now: to the last complete line of each of its logs. UsageError if
    ``out`` exists and ``force`` is not set. A failure leaves nothing behind.
    """
    if out.exists() and not (force and out.is_file()):
        raise UsageError(f"{out} already exists. To replace it, add --force, or use -o OTHER.zip")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder")
    state = observed_state(run)
    is_active = not state.has_ended and state.state != "lost"
    listed = [
        file
        for file in _files(run, evaluations, checkpoints=checkpoints, is_active=is_active)
        if not (out.exists() and file.path.resolve() == out.resolve())
    ]
    about = {"v": 1, "run": run.id, "state": state.word, "step": state.step}
    with files.replacing(out) as handle:
        with zipfile.ZipFile(handle, "w") as archive:
            packing = _Packing(archive, f"{run.id}-package")
            for file in listed:
                packing.add_file(file)
            _finish(packing, about)
            archive.comment = COMMENT + b"0" * 64
        sha256, size = _seal(handle)
    return Package(
        out,
        sha256,
        len(packing.sums),
        size,
        tuple(packing.masked),
        tuple(sorted(packing.left_out.items())),
        (state.step or 0) if is_active else None,
    )


def _finish(packing: _Packing, about: dict[str, object]) -> None:
    left_out = dict(sorted(packing.left_out.items()))
    about = {**about, "masked": packing.masked, "left_out": left_out}
    text = json.dumps(about, indent=2) + "\n"
    packing.add(ABOUT, [text.encode()], len(text))
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(packing.sums.items()))
    packing.add(SUMS, [lines.encode()], len(lines))


def _seal(handle: BinaryIO) -> tuple[str, int]:
    """Write the digest of all other bytes into the comment, the last 64 of them. Returns the digest
    of the whole file, and its size."""
    size = handle.seek(0, os.SEEK_END)
    seal = digest_of(handle, size - 64)
    handle.write(seal.encode())
    return digest_of(handle, size), size


def digest_of(handle: BinaryIO, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes, in hex; the file is read up to there."""
    handle.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (block := handle.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()


def _files(run: Run, evaluations: Path, *, checkpoints: bool, is_active: bool) -> Iterator[_File]:
    """The files to pack, sorted by their names in the package."""
    folders = [(run.path, f"runs/{run.id}")]
    folders += [
        (folder, f"evaluations/{folder.name}") for folder in evaluations_of(run.id, evaluations)
    ]
    saved = checkpoint_folder(run.read_manifest())
    listed = [
        file
        for folder, name in folders
        for file in _below(folder, name, without=saved)
        if run.data not in file.path.parents  # The manifest has their hashes.
    ]
    if is_active:
        listed = [_as_of_now(file) for file in listed]
    if checkpoints:
        steps = complete_steps(saved).values() if saved else ()
        models = [saved / "final"] if saved and (saved / "final").is_dir() else []
        for folder in (*steps, *models):
            listed += _below(folder, f"checkpoints/{folder.name}", is_checkpoint=True)
        if not any(file.is_checkpoint for file in listed):
            where = f" in {saved}" if saved else ""
            raise UsageError(f"run '{run.id}' has no complete checkpoint{where}")
    yield from sorted(listed, key=lambda file: file.name)


def _below(
    folder: Path, name: str, *, without: Path | None = None, is_checkpoint: bool = False
) -> Iterator[_File]:
    """The files below a folder, except those in ``without``. Hidden ones, such as those that are
    being written, are none."""
    for above, folders, names in os.walk(folder):
        folders[:] = [
            entry
            for entry in folders
            if _is_packed(entry) and (without is None or not _is_same(Path(above, entry), without))
        ]
        inner = PurePosixPath(name, Path(above).relative_to(folder))
        for entry in filter(_is_packed, names):
            path = Path(above, entry)
            with suppress(FileNotFoundError):
                yield _File(str(inner / entry), path, path.lstat().st_size, is_checkpoint)


def _is_packed(name: str) -> bool:
    return not name.startswith(".") and name not in _NOT_PACKED


def _is_same(path: Path, other: Path) -> bool:
    return other.exists() and path.samefile(other)


def _as_of_now(file: _File) -> _File:
    """A file of an active run: a log up to its last complete line, another with its content."""
    try:
        with files.open_regular(file.path) as handle:
            if file.path.suffix == ".json":
                head = handle.read()
                return _File(file.name, file.path, len(head), head=head)
            return _File(file.name, file.path, _complete_lines(handle, file.size))
    except OSError:
        return file  # ``add_file`` says why it is left out.


def _complete_lines(handle: BinaryIO, size: int) -> int:
    """Bytes up to the end of the last complete line among the first ``size``."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        handle.seek(start)
        if (newline := handle.read(end - start).rfind(b"\n")) >= 0:
            return start + newline + 1
        end = start
    return 0


def _open(file: _File) -> BinaryIO:
    if file.head is not None:
        return io.BytesIO(file.head)
    if not stat.S_ISREG(file.path.lstat().st_mode):
        is_link = file.path.is_symlink()
        raise OSError(0, "a symbolic link" if is_link else "not a regular file", str(file.path))
    return files.open_regular(file.path)


def _is_binary(handle: BinaryIO) -> bool:
    head = handle.read(_HEAD)
    handle.seek(0)
    return b"\0" in head


def _has_secret(handle: BinaryIO, file: _File) -> bool:
    """Whether a text file of a checkpoint holds a secret. Weights and vocabularies are not read."""
    if file.size > _LARGEST_TEXT or _is_binary(handle):
        return False
    has_secret = any(_mask(block) != block for block in _blocks(handle, file))
    handle.seek(0)
    return has_secret


def _mask(block: bytes) -> bytes:
    return mask_text(block.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _blocks(handle: BinaryIO, file: _File) -> Iterator[bytes]:
    """Blocks that end with a line, and not between the first and last line of a private key: a log
    may be larger than memory. UsageError for a line that is too long to be searched for secrets."""
    size = file.size
    while size > 0 and (block := bytearray(handle.read(min(size, _BLOCK)))):
        size -= len(block)
        end = len(block) + _LONGEST_KEY
        while size > 0 and (not block.endswith(b"\n") or (_is_in_key(block) and len(block) < end)):
            line = handle.readline(min(size, _LONGEST_LINE))
            if not line:
                break
            block += line
            size -= len(line)
            if len(block) > _LONGEST_LINE:
                raise UsageError(
                    f"{file.path}: a line of more than {_LONGEST_LINE >> 20} MiB; remove it, and "
                    "pack the run again"
                )
        yield bytes(block)


def _is_in_key(block: bytearray) -> bool:
    return block.rfind(b"-----BEGIN") > block.rfind(b"-----END")


_LONGEST_LIST = 64 << 20
_MOST_EXPANSION = 500
"""Bytes for each byte of the zip file. Deflate reaches 1032, with nothing but zeros."""
_HARMLESS = 64 << 20
"""Bytes that a zip file of any size may expand to."""
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\n]+)")
_DRIVE = re.compile(r"[A-Za-z]:")
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)

Kind = Literal["changed", "missing", "extra"]


@dataclass(frozen=True)
class Problem:
    """A file of a package that is not as its list says."""

    kind: Kind
    name: str
    detail: str = ""


@dataclass(frozen=True)
class PackageCheck:
    """What ``check_package`` found."""

    path: Path
    files: int
    """Files that are as listed."""
    problems: tuple[Problem, ...]


Read = Callable[[], IO[bytes]]


def check_package(path: Path) -> PackageCheck:
    """Compare every file of a zip file or of an unpacked folder with the package's list.

    UsageError for anything else, and for a zip file that is damaged as a whole or dangerous
    to unpack.
    """
    if path.is_dir():
        return _check_folder(path)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    with files.open_regular(path) as handle:
        try:
            archive = zipfile.ZipFile(handle)
        except (*_DAMAGE, NotImplementedError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: not a zip file, or a damaged one: {error}") from None
        with archive:
            return _check_archive(path, handle, archive)


def _check_archive(path: Path, handle: BinaryIO, archive: zipfile.ZipFile) -> PackageCheck:
    size = path.stat().st_size
    if (danger := _danger(archive, size)) is not None:
        raise UsageError(f"{path}: {danger}. Do not unpack it: it is no package of this program")
    inner: dict[str, Read] = {}
    tops = set()
    for info in archive.infolist():
        top, _, name = info.filename.partition("/")
        tops.add(top)
        if info.file_size or not info.is_dir():
            # A file in place of the folder, or content of a folder, is extra, too.
            inner[name or top] = partial(archive.open, info)
    if SUMS not in inner or len(tops) > 1:
        raise _no_package(path)
    check = _check_files(path, inner)
    seal = archive.comment
    if not check.problems and seal and seal != COMMENT + digest_of(handle, size - 64).encode():
        problem = Problem("changed", path.name, "the zip file's own headers; its files are intact")
        return PackageCheck(path, check.files, (problem,))
    return check


def _danger(archive: zipfile.ZipFile, size: int) -> str | None:
    """Why unpacking a zip file of ``size`` bytes could do harm; None if it could not."""
    entries = archive.infolist()
    for info in entries:
        name = shorten(info.orig_filename)
        parts = PurePosixPath(info.orig_filename).parts
        if info.orig_filename.startswith("/") or ".." in parts or _DRIVE.match(info.orig_filename):
            return f"its entry {name!r} leads out of the folder"
        if "\\" in info.orig_filename or not info.orig_filename.isprintable():
            return f"its entry {name!r} has a name that systems read differently"
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            return f"its entry {name!r} is a link or a device"
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            return f"its entry {name!r} is encrypted, or compressed in a way that is not read"
    names = Counter(info.filename for info in entries)
    if entries and (repeated := names.most_common(1)[0])[1] > 1:
        return f"it has {repeated[1]} entries named {shorten(repeated[0])!r}"
    expanded = sum(info.file_size for info in entries)
    if sum(info.compress_size for info in entries) > size:
        return "its entries overlap"
    if expanded > max(_HARMLESS, _MOST_EXPANSION * size):
        return f"its {size} bytes expand to {expanded}"
    return None


def _check_folder(path: Path) -> PackageCheck:
    root = path
    if not (root / SUMS).is_file():
        # Unpacked into a folder of its own.
        inner = [folder for folder in path.iterdir() if (folder / SUMS).is_file()]
        if len(inner) != 1:
            raise _no_package(path)
        root = inner[0]
    return _check_files(path, dict(_regular_files(root)))


def _regular_files(root: Path) -> Iterator[tuple[str, Read]]:
    for entry in sorted(root.rglob("*")):
        if entry.is_symlink() or not entry.is_dir():
            yield str(entry.relative_to(root)), partial(_open_unlinked, entry)


def _open_unlinked(file: Path) -> BinaryIO:
    if not stat.S_ISREG(file.lstat().st_mode):
        raise zipfile.BadZipFile("not a regular file")
    return files.open_regular(file)


def _check_files(path: Path, inner: Mapping[str, Read]) -> PackageCheck:
    try:
        with inner[SUMS]() as handle:
            text = handle.read(_LONGEST_LIST)
    except _DAMAGE as error:
        return PackageCheck(path, 0, (Problem("changed", SUMS, str(error)),))
    listed, problems = _parse_list(text.decode("utf-8", "replace"))
    for name, expected in sorted(listed.items()):
        if name not in inner:
            problems.append(Problem("missing", name))
        elif (detail := _difference(inner[name], expected)) is not None:
            problems.append(Problem("changed", name, detail))
    extra = sorted(inner.keys() - listed.keys() - {SUMS})
    problems += [Problem("extra", name) for name in extra]
    wrong = {problem.name for problem in problems}
    return PackageCheck(path, len(listed.keys() - wrong), tuple(problems))


def _parse_list(text: str) -> tuple[dict[str, str], list[Problem]]:
    """Digests by name, and the lines that hold none."""
    listed, problems = {}, []
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _LINE.fullmatch(line)) is None:
            detail = f"line {number} is not a SHA-256 and a name"
            problems.append(Problem("changed", SUMS, detail))
        else:
            listed[match["name"]] = match["sha256"]
    return listed, problems


def _difference(read: Read, expected: str) -> str | None:
    """How the content differs from a digest; None where it has it."""
    digest = sha256()
    try:
        with read() as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
    except _DAMAGE as error:
        return str(error)
    return None if digest.hexdigest() == expected else "its SHA-256 is another"


def _no_package(path: Path) -> UsageError:
    return UsageError(
        f"{path}: not a package: it is no folder with a {SUMS}. grubrics-tui package RUN writes one"
    )
