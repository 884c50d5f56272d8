"""Reading files that are larger than what is on the disk: a file of 2 TiB may hold one line.

A hole reads as zeros. It comes about where a log is cut under a writer that goes on at its old
place, or on purpose; reading it takes time and tells nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

_SMALLEST = 16 << 20
"""Smaller holes are read: some file systems call what was written a moment ago a hole."""
_CHUNK = 1 << 20
_BACKWARDS_CHUNK = 64 * 1024
_LONGEST_LINE = 64 << 20


def after_hole(descriptor: int, offset: int) -> int:
    """Where data begins at or after ``offset``; the size of the file when there is none.

    Moves the descriptor's own offset. A file system that knows no holes has none.
    """
    size = os.fstat(descriptor).st_size
    if size - offset < _SMALLEST:
        return offset
    try:
        found = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        found = size if error.errno == errno.ENXIO else offset
    return found if found - offset >= _SMALLEST else offset


def before_hole(descriptor: int, offset: int) -> int:
    """Where data ends at or before ``offset``; 0 when there is none."""
    found = start = 0
    try:
        while (start := os.lseek(descriptor, start, os.SEEK_DATA)) < offset:
            start = os.lseek(descriptor, start, os.SEEK_HOLE)
            found = min(start, offset)
    except OSError as error:
        if error.errno != errno.ENXIO:  # A file system that knows no holes.
            return offset
    return found if offset - found >= _SMALLEST else offset


def chunks(descriptor: int, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
    """What the file holds from ``offset`` on, in parts of at most ``size`` bytes with their
    offsets."""
    while data := os.pread(descriptor, size, offset := after_hole(descriptor, offset)):
        yield offset, data
        offset += len(data)


def numbered_lines(descriptor: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines from the byte ``start`` on, each with its offset and its end.

    The last one may be torn and so have no end. One that runs into a hole is left out, and one of
    more than 64 MiB comes in pieces.
    """
    offset, parts, size = start, list[bytes](), 0
    for place, chunk in chunks(descriptor, start, _CHUNK):
        if place > offset + size:
            offset, parts, size = place, [], 0
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            parts.append(line)
            joined = b"".join(parts) + b"\n"
            yield offset, joined
            offset, parts = offset + len(joined), []
        parts.append(rest)
        size = sum(map(len, parts))
        if size >= _LONGEST_LINE:
            yield offset, b"".join(parts)
            offset, parts, size = offset + size, [], 0
    if size:
        yield offset, b"".join(parts)


def lines_backwards(descriptor: int) -> Iterator[bytes]:
    """The lines of a file without their ends, last one first. Holes are skipped."""
    rest = b""
    end = before_hole(descriptor, os.fstat(descriptor).st_size)
    while end:
        start = max(0, end - _BACKWARDS_CHUNK)
        block = os.pread(descriptor, end - start, start)
        end = start
        if not block.strip(b"\0"):
            end, rest = before_hole(descriptor, end), b""
            continue
        rest, *lines = (block + rest).split(b"\n")
        yield from reversed(lines)
    yield rest
