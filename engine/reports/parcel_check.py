"""Check a parcel, packed or unpacked, against its list of digests.

A parcel comes from elsewhere: nothing of it is unpacked or executed, and a zip file that would
write outside of its folder, or that expands out of all proportion, is refused.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal

from engine.base import files
from engine.base.errors import UsageError, shorten
from engine.reports.parcel import COMMENT, SUMS, digest_of

_BLOCK = 1 << 20
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
    """A file of a parcel that is not as its list says."""

    kind: Kind
    name: str
    detail: str = ""


@dataclass(frozen=True)
class ParcelCheck:
    """What ``check_parcel`` found."""

    path: Path
    files: int
    """Files that are as listed."""
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        problems = [asdict(problem) for problem in self.problems]
        return {
            "path": str(self.path),
            "ok": not problems,
            "files": self.files,
            "problems": problems,
        }


Read = Callable[[], IO[bytes]]


def check_parcel(path: Path) -> ParcelCheck:
    """Compare every file of a zip file or of an unpacked folder with the parcel's list.

    UsageError for anything but a parcel, and for a zip file that is damaged as a whole or dangerous
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


def _check_archive(path: Path, handle: BinaryIO, archive: zipfile.ZipFile) -> ParcelCheck:
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
        raise _no_parcel(path)
    check = _check_files(path, inner)
    seal = archive.comment
    if not check.problems and seal and seal != COMMENT + digest_of(handle, size - 64).encode():
        problem = Problem("changed", path.name, "the zip file's own headers; its files are intact")
        return ParcelCheck(path, check.files, (problem,))
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


def _check_folder(path: Path) -> ParcelCheck:
    root = path
    if not (root / SUMS).is_file():
        # Unpacked into a folder of its own.
        inner = [folder for folder in path.iterdir() if (folder / SUMS).is_file()]
        if len(inner) != 1:
            raise _no_parcel(path)
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


def _check_files(path: Path, inner: Mapping[str, Read]) -> ParcelCheck:
    try:
        with inner[SUMS]() as handle:
            text = handle.read(_LONGEST_LIST)
    except _DAMAGE as error:
        return ParcelCheck(path, 0, (Problem("changed", SUMS, str(error)),))
    listed, problems = _parse_list(text.decode("utf-8", "replace"))
    for name, expected in sorted(listed.items()):
        if name not in inner:
            problems.append(Problem("missing", name))
        elif (detail := _difference(inner[name], expected)) is not None:
            problems.append(Problem("changed", name, detail))
    extra = sorted(inner.keys() - listed.keys() - {SUMS})
    problems += [Problem("extra", name) for name in extra]
    wrong = {problem.name for problem in problems}
    return ParcelCheck(path, len(listed.keys() - wrong), tuple(problems))


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


def _no_parcel(path: Path) -> UsageError:
    return UsageError(
        f"{path}: not a package: it is no folder with a {SUMS}. grubrics-tui package RUN writes one"
    )
