"""Follow a file that another process writes: its growth, truncation, replacement and deletion.

Files are polled rather than watched with inotify, which misses other hosts' writes on network file
systems.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from engine.base import files
from engine.base.holes import after_hole, chunks, numbered_lines

Change = Literal["", "opened", "grew", "truncated", "replaced", "deleted"]
RESTARTS: frozenset[Change] = frozenset({"opened", "truncated", "replaced"})
"""Changes after which reading starts again: what was derived from the earlier content is void."""

Cancelled = Callable[[], bool]

_CHUNK = 1 << 20
_FINGERPRINT = 1024  # more than one line: lines that are equal otherwise differ in their times
_LONGEST_LINE = 64 << 20
_CANCEL_CHECK = 256
"""Lines between two calls of ``cancelled``."""


class OpenFile:
    """An open file, readable even after it is renamed or deleted, and the offset it was read to."""

    def __init__(self, descriptor: int, offset: int = 0) -> None:
        self.descriptor, self.offset = descriptor, offset
        self._fingerprint = b""
        weakref.finalize(self, os.close, descriptor)

    def size(self) -> int:
        """Bytes in the file; what was read of it when it can no longer be asked."""
        try:
            return os.fstat(self.descriptor).st_size
        except OSError:
            return self.offset

    def behind(self) -> int:
        """Bytes that were not read yet, a torn last line included."""
        return max(0, self.size() - self.offset)

    def read_to(self, offset: int) -> None:
        """Set the offset and remember the bytes before it."""
        self.offset = offset
        start = max(0, offset - _FINGERPRINT)
        self._fingerprint = b""  # That of another offset would tell of a truncation.
        with suppress(OSError):
            self._fingerprint = os.pread(self.descriptor, offset - start, start)

    def is_rewritten(self) -> bool:
        """Whether what was read last is gone, even if the file has grown longer since."""
        if self.size() < self.offset:
            return True
        start = self.offset - len(self._fingerprint)
        try:
            return os.pread(self.descriptor, len(self._fingerprint), start) != self._fingerprint
        except OSError:
            return False

    def chunks(self, size: int) -> Iterator[bytes]:
        """New bytes in parts of at most ``size``. Holes are skipped.

        A part counts as read when the next one is asked for.
        """
        for offset, data in chunks(self.descriptor, self.offset, size):
            yield data
            self.read_to(offset + len(data))
        if (end := after_hole(self.descriptor, self.offset)) > self.offset:
            self.read_to(end)

    def lines(self, cancelled: Cancelled = bool) -> Iterator[tuple[int, bytes]]:
        """New complete lines with their offsets and line ends. Stops when ``cancelled``.

        A line counts as read when the next one is asked for. A torn last line is left.
        """
        end = self.offset
        try:
            for number, (offset, line) in enumerate(numbered_lines(self.descriptor, end)):
                if not line.endswith(b"\n") or (number % _CANCEL_CHECK == 0 and cancelled()):
                    return
                yield offset, line
                end = offset + len(line)
        finally:
            if end != self.offset:
                self.read_to(end)

    def block(self, line_ends: tuple[bytes, ...], at_most: int | None = None) -> bytes:
        """New complete lines as one block, of about ``at_most`` bytes: rounded up to whole lines.

        A line before a hole that has no end is dropped, and so are 64 MiB without a line end.
        """

        def complete(data: bytes) -> bytes:
            return data[: max(map(data.rfind, line_ends)) + 1]

        blocks: list[bytes] = []
        parts: list[bytes] = []
        start = end = self.offset
        for position, chunk in chunks(self.descriptor, start, _CHUNK):
            if position > end:
                blocks.append(complete(b"".join(parts)))
                parts, start = [], position
            parts.append(chunk)
            end = position + len(chunk)
            # A line longer than the limit is read to its end: else it would never be complete.
            if at_most is not None and end - start >= at_most and complete(chunk):
                break
            if end - start >= _LONGEST_LINE and not complete(parts[0]):
                break
        else:
            if (after := after_hole(self.descriptor, end)) > end:
                blocks.append(complete(b"".join(parts)))
                parts, start = [], after
        data = b"".join(parts)
        lines = complete(data)
        blocks.append(lines)
        is_endless = not lines and len(data) >= _LONGEST_LINE
        read = start + len(data if is_endless else lines)
        if read != self.offset:
            self.read_to(read)
        return b"".join(blocks)


class FileFollower:
    """Follows a file by name. Every reader of a growing file learns from it what happened to it.

    ``file`` is the file of that name, or the last one that had it; ``previous`` the one before,
    which its writer may still have open.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """``offset`` is where reading starts in the first file of that name."""
        self.path = path
        self.file: OpenFile | None = None
        self.previous: OpenFile | None = None
        self.is_deleted = False
        self.trouble: OSError | None = None
        """Why the last poll could not see or read the file; a missing one is no trouble."""
        self.restarts = 0
        """How often the file was truncated, rewritten or replaced."""
        self._start = offset

    def poll(self) -> Change:
        """What happened since the last poll. After a restart the offset of ``file`` is 0.

        What cannot be opened, such as a pipe, counts as missing.
        """
        self.trouble, file = None, self.file
        try:
            descriptor = files.open_descriptor(self.path)
            with files.closed_on_error(descriptor):
                is_same = file is not None and os.path.sameopenfile(file.descriptor, descriptor)
        except OSError as error:
            if not files.is_trouble(error):
                return self._poll_without_name()
            self.trouble = error
            return "" if file is None else self._poll_open_file(file)
        self.is_deleted = False
        if file is not None and is_same:
            os.close(descriptor)
            return self._poll_open_file(file)
        self.previous, self.file = file, OpenFile(descriptor, self._start if file is None else 0)
        if file is None:
            return "opened"
        self.restarts += 1
        return "replaced"

    def _poll_without_name(self) -> Change:
        if self.file is None:
            return ""
        if not self.is_deleted:
            self.is_deleted = True
            return "deleted"
        return self._poll_open_file(self.file)

    def _poll_open_file(self, file: OpenFile) -> Change:
        if file.is_rewritten():
            file.read_to(0)
            self.restarts += 1
            return "truncated"
        return "grew" if file.behind() else ""


class Tail:
    """Complete lines appended to a file since the last poll.

    A torn last line waits for its end. A truncated file is read from its start. A file that was
    renamed or deleted is still read, beside the new file of that name. An unreadable file has no
    lines.
    """

    def __init__(self, path: Path, offset: int = 0, *, ends_at_return: bool = False) -> None:
        """With ``ends_at_return`` a carriage return ends a line too, as a progress bar's does."""
        self.path = path
        self._line_ends = (b"\n", b"\r") if ends_at_return else (b"\n",)
        self._follower = FileFollower(path, offset)

    def lines(self, at_most: int | None = None) -> list[bytes]:
        """The new complete lines, without their line ends."""
        return self.block(at_most).split(b"\n")[:-1]

    def block(self, at_most: int | None = None) -> bytes:
        """The new complete lines with their line ends.

        ``at_most`` bytes are read of a file at a time, rounded up to whole mebibytes and lines;
        ``behind`` then returns what is left for the next poll.
        """
        self._follower.poll()
        blocks: list[bytes] = []
        for file in self._files():
            try:
                blocks.append(file.block(self._line_ends, at_most))
            except OSError as error:
                self._follower.trouble = error
        return b"".join(blocks)

    @property
    def trouble(self) -> OSError | None:
        """Why the last poll may have missed lines, which a later one finds; None: it did not."""
        return self._follower.trouble

    def behind(self) -> int:
        """Bytes written that were not read yet, a torn last line included."""
        return sum(file.behind() for file in self._files())

    def unread(self, limit: int) -> bytes:
        """At most the last ``limit`` bytes that were not read yet: mostly a torn last line."""
        if (file := self._follower.file) is None:
            return b""
        start = max(file.offset, file.size() - limit)
        with suppress(OSError):
            return os.pread(file.descriptor, max(0, file.size() - start), start)
        return b""

    def size(self) -> int:
        """Bytes of the files that are followed."""
        return sum(file.size() for file in self._files())

    @property
    def restarts(self) -> int:
        """How often the file was truncated, rewritten or replaced: lines from then on begin with
        the first one that it has."""
        return self._follower.restarts

    @property
    def is_rotated(self) -> bool:
        """Whether the file before this one still exists under another name."""
        previous = self._follower.previous
        try:
            return previous is not None and os.fstat(previous.descriptor).st_nlink > 0
        except OSError:
            return False

    def _files(self) -> list[OpenFile]:
        return [file for file in (self._follower.previous, self._follower.file) if file is not None]


def near_end(path: Path, limit: int) -> int:
    """Where the first line begins that is completely in the last ``limit`` bytes of a file."""
    try:
        with files.open_regular(path) as handle:
            start = max(0, handle.seek(0, os.SEEK_END) - limit)
            handle.seek(start)
            return start + len(handle.readline()) if start else 0
    except OSError:
        return 0


def last_lines(path: Path, count: int, limit: int = 256 * 1024) -> list[bytes]:
    """The last ``count`` lines of a file, reading at most ``limit`` bytes from its end."""
    try:
        with files.open_regular(path) as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - limit))
            data = handle.read(limit)
    except OSError:
        return []
    return data.splitlines()[-count:]
