"""Read sparse files: a file of 2 TiB may hold one line.

A hole reads as zeros. It comes about where a log is truncated under a writer that continues at its
old offset, or on purpose. Reading it would take time for nothing.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator

_SMALLEST = 16 << 20
"""Smaller holes are read: some file systems report data written a moment ago as a hole."""
_CHUNK = 1 << 20
_BACKWARDS_CHUNK = 64 * 1024
_LONGEST_LINE = 64 << 20


def after_hole(descriptor: int, offset: int) -> int:
    """Where data begins at or after ``offset``; the size of the file when there is none.

    Moves the descriptor's offset. A file system without holes reports none.
    """
    size = os.fstat(descriptor).st_size
    if size - offset < _SMALLEST:
        return offset
    try:
        data_start = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        data_start = size if error.errno == errno.ENXIO else offset
    return data_start if data_start - offset >= _SMALLEST else offset


def before_hole(descriptor: int, offset: int) -> int:
    """Where data ends at or before ``offset``; 0 when there is none."""
    data_end = start = 0
    try:
        while (start := os.lseek(descriptor, start, os.SEEK_DATA)) < offset:
            start = os.lseek(descriptor, start, os.SEEK_HOLE)
            data_end = min(start, offset)
    except OSError as error:
        if error.errno != errno.ENXIO:  # A file system without holes.
            return offset
    return data_end if offset - data_end >= _SMALLEST else offset


def chunks(descriptor: int, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The data from ``offset`` on, in parts of at most ``size`` bytes with their offsets."""
    while data := os.pread(descriptor, size, offset := after_hole(descriptor, offset)):
        yield offset, data
        offset += len(data)


def numbered_lines(descriptor: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines from the byte ``start`` on, each with its offset and its line end.

    The last one may be torn, without a line end. A line that runs into a hole is left out; one of
    more than 64 MiB comes in pieces.
    """
    offset, parts, size = start, list[bytes](), 0
    for position, chunk in chunks(descriptor, start, _CHUNK):
        if position > offset + size:
            offset, parts, size = position, [], 0
        *lines, torn = chunk.split(b"\n")
        for line in lines:
            parts.append(line)
            joined = b"".join(parts) + b"\n"
            yield offset, joined
            offset, parts = offset + len(joined), []
        parts.append(torn)
        size = len(torn) if lines else size + len(torn)
        if size >= _LONGEST_LINE:
            yield offset, b"".join(parts)
            offset, parts, size = offset + size, [], 0
    if size:
        yield offset, b"".join(parts)


def lines_backwards(descriptor: int) -> Iterator[bytes]:
    """The lines of a file without their ends, last one first. Holes are skipped.

    Of a line of more than 64 MiB only the end comes.
    """
    parts, size = deque[bytes](), 0
    end = before_hole(descriptor, os.fstat(descriptor).st_size)
    while end:
        start = max(0, end - _BACKWARDS_CHUNK)
        block = os.pread(descriptor, end - start, start)
        end = start
        if not block.strip(b"\0"):
            end, size = before_hole(descriptor, end), 0
            parts.clear()
            continue
        torn, *lines = block.split(b"\n")
        if lines:
            yield b"".join([lines[-1], *parts])
            yield from reversed(lines[:-1])
            parts.clear()
            size = 0
        if size < _LONGEST_LINE:
            parts.appendleft(torn)
            size += len(torn)
    yield b"".join(parts)
