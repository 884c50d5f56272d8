"""JSON files that many processes write and that readers may open at any moment."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from engine.base import files, locks
from engine.base.holes import numbered_lines

APPEND_LOCK = ".append.lock"
"""In each folder with such files: who appends a line holds it."""
LARGEST_FILE = 16 << 20
"""Bytes of a JSON file that is read at once. A manifest has some hundred KiB."""

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LARGEST = 1e100  # as good as infinite, while sums and squares stay finite
_NUMBERS = (int, float)
_LARGEST_INTEGER = 2**53  # what JSON numbers hold exactly
_LONGEST_PATH = 1500  # bytes; a few such parts together are still below the system's 4096
_LONGEST_NAME = 240  # bytes; the system allows 255
_DEEPEST = 32  # levels; no written value has more
_LAST_MOMENT = 2**37  # in the year 6325; calendars break off not much later


def append(
    path: Path, record: dict[str, Any], patience_s: float | None = None, *, again: bool = False
) -> None:
    """Append one complete line or nothing; lines of concurrent writers never mix.

    Raises OSError when the line does not fit on the disk, and when another writer has held the
    folder's lock for ``patience_s`` (``locks.PATIENCE_S``). A torn line that a crash left at the
    end is closed first, so it costs only itself. ``again``: the same line may be there already, as
    after an error on closing the file.
    """
    line = _to_json(record)
    descriptor = files.open_to_append(path)
    try:
        # Not the file itself: whoever may read that could lock it too.
        lock = path.with_name(APPEND_LOCK)
        with files.errors_name(path), locks.held_file(lock, patience_s):
            if not (again and _ends_with(descriptor, line)):
                _append_whole(descriptor, line, path)
    finally:
        os.close(descriptor)


def _ends_with(descriptor: int, line: bytes) -> bool:
    start = os.fstat(descriptor).st_size - len(line)
    return start >= 0 and os.pread(descriptor, len(line), start) == line


def _append_whole(descriptor: int, line: bytes, path: Path) -> None:
    size = os.fstat(descriptor).st_size
    if size > 0 and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    if os.write(descriptor, line) < len(line):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file; none for a missing one. Torn and other lines are skipped.

    OSError for anything but a regular file.
    """
    return (record for line in raw_lines(path) if (record := parse_line(line)) is not None)


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without the holes in it; none for a missing file.

    OSError for anything but a regular file.
    """
    try:
        handle = files.open_regular(path)
    except FileNotFoundError:
        return
    with handle:
        yield from (line for _, line in numbered_lines(handle.fileno()))


def parse_line(line: bytes) -> dict[str, Any] | None:
    """One JSONL line as a dict, or None when it is torn, nested too deeply or not an object.

    See ``parse_value``. Zeros before the line are the hole that truncating a file leaves in front
    of its writer.
    """
    try:
        record = parse_value(line.lstrip(b"\0"))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def parse_value(text: bytes) -> Any:
    """A value of JSON, also with NaN or a BOM. ValueError for other text, and for deep nesting.

    Half a surrogate pair, which no file or terminal could take, becomes a question mark.
    """
    try:
        # A fifth of the time of ``json``; refuses NaN, a BOM and half surrogates.
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_unusual_value(text)


def _parse_unusual_value(text: bytes) -> Any:
    try:
        value = json.loads(text.decode("utf-8-sig"))
        if _ESCAPED_SURROGATE.search(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def read_json(path: Path, limit: int = LARGEST_FILE) -> dict[str, Any] | None:
    """A JSON object file, or None when it is missing, torn, too large or not an object."""
    try:
        return parse_line(files.read_regular(path, limit))
    except OSError:
        return None


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` atomically with ``value`` as indented JSON."""
    files.write_atomic(path, _to_json(value, indent=2).decode())


def overwrite_json(path: Path, value: Any) -> None:
    """Write over a file that exists, for when there is no room for a second one.

    One short write into the room the file has: a reader sees the old or the new text.
    """
    text = _to_json(value)
    descriptor = files.open_to_overwrite(path)
    try:
        status = os.fstat(descriptor)
        if len(text) > status.st_blocks * 512:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.pwrite(descriptor, text.rjust(status.st_size), 0)
    finally:
        os.close(descriptor)


def _to_json(value: Any, indent: int | None = None) -> bytes:
    """The value as JSON that any reader takes: half a surrogate pair, as in a file name that is
    not UTF-8, becomes its escape."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=indent)
    return (text + "\n").encode(errors="backslashreplace")


def number(value: Any) -> float | None:
    """A field that should be a number; None for anything else, a NaN and an infinity included."""
    # ``isinstance`` takes three times as long; a list of ten thousand runs has 300,000 numbers.
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, _NUMBERS)):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def integer(value: Any) -> int | None:
    """A field that should be an integer; None for anything else."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
        return None
    return value if -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER else None


def moment(value: Any) -> float | None:
    """A field that should be a time in Unix seconds; None when no calendar could show it."""
    seconds = number(value)
    return seconds if seconds is not None and 0 <= seconds <= _LAST_MOMENT else None


def line(value: Any) -> str | None:
    """A field that should be a line of text; None for anything else.

    Control and invisible formatting characters, which could move a cursor or turn text around,
    become spaces.
    """
    if not isinstance(value, str):
        return None
    if value.isprintable():
        return value
    return " ".join("".join(c if c.isprintable() else " " for c in value).split())


def text(value: Any) -> str | None:
    """A field that should be a text of any lines; None for anything else. See ``line``."""
    if not isinstance(value, str):
        return None
    return "\n".join(line(part) or "" for part in value.splitlines())


def location(value: Any) -> str | None:
    """A field that should be a path; None for one that no file system takes. Not safe to show."""
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    encoded = os.fsencode(value)
    if len(encoded) > _LONGEST_PATH or max(map(len, encoded.split(b"/"))) > _LONGEST_NAME:
        return None
    # The home of a user unknown here.
    return None if os.path.expanduser(value).startswith("~") else value  # noqa: PTH111


def finite(value: Any) -> Any:
    """``value`` with every NaN and infinity as None: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def shallow(value: object, depth: int = _DEEPEST) -> object:
    """A JSON value with None for every NaN, and for what is nested too deeply for recursion."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: shallow(item, depth - 1) for key, item in value.items()} if depth else None
    if isinstance(value, list):
        return [shallow(item, depth - 1) for item in value] if depth else None
    return value
