"""Finds, in a stream of bytes, the few lines that are worth reading.

Only whole lines are looked at, so it does not matter how the stream was cut; memory is bounded by
the longest line that is read and by what is kept for context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

BLOCK = 1024 * 1024
LONGEST_LINE = 128 * 1024
"""Bytes of a line that are read; what follows up to its end is passed over."""
_LONG = BLOCK // 2
"""A block of this size comes of a long log: it pays to get ready for more."""
KEPT = 64 * 1024
"""Bytes before the current place that stay readable."""


class Scanner:
    """Calls ``on_line(raw, offset, needles)`` for lines that hold a needle.

    While ``wants_all()`` holds, for every line. Lines end at ``\\n`` or ``\\r``: a progress bar's
    states are lines of their own.
    """

    def __init__(
        self,
        needles: Sequence[bytes],
        on_line: Callable[[bytes, int, Sequence[int]], None],
        wants_all: Callable[[], bool],
        on_block: Callable[[bytes, int], None] = lambda block, offset: None,
    ) -> None:
        self._needles = tuple(needles)
        self._on_line, self._wants_all, self._on_block = on_line, wants_all, on_block
        self._pending = b""
        self._skipping = False
        """Inside the rest of a line that was too long."""
        self.offset = 0
        """Byte of the stream at which ``_pending`` begins."""
        self._before = b""
        self._block, self._at = b"", 0
        self._counted = self._counted_to = 0

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK):
            self._take(data[start : start + BLOCK])

    def finish(self) -> None:
        """Read what is left as a line, though its end has not been seen."""
        if self._pending:
            rest, self._pending = self._pending, b""
            self._scan(rest)

    @property
    def is_inside_line(self) -> bool:
        """Whether the stream has come to a place that is no line's end."""
        return bool(self._pending)

    def calling(
        self,
        on_line: Callable[[bytes, int, Sequence[int]], None],
        wants_all: Callable[[], bool],
        on_block: Callable[[bytes, int], None],
    ) -> Scanner:
        """One at the same place of the stream, for somebody else."""
        other = copy(self)
        other._on_line, other._wants_all, other._on_block = on_line, wants_all, on_block
        return other

    def before(self, size: int = KEPT) -> bytes:
        """What came before the line that ``on_line`` is called with, whole lines mostly."""
        here = self._block[max(0, self._at - size) : self._at]
        missing = size - len(here)
        return self._before[max(0, len(self._before) - missing) :] + here if missing else here

    def above(self) -> bytes:
        """The present block above the line; earlier blocks have gone to ``on_block``."""
        return self._block[: self._at]

    def lines_above(self) -> int:
        """Line ends in ``above``; counted on from the last question."""
        self._counted += self._block.count(b"\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._counted

    def _take(self, data: bytes) -> None:
        if self._skipping:
            data = self._skip(data)
        self._pending += data
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        whole, self._pending = self._pending[:end], self._pending[end:]
        for part in _without_long_lines(whole):
            self._scan_part(part)
        if len(self._pending) > LONGEST_LINE:
            kept, dropped = self._pending[:LONGEST_LINE], len(self._pending) - LONGEST_LINE
            self._pending = b""
            self._scan(kept)
            self.offset += dropped
            self._skipping = True

    def _skip(self, data: bytes) -> bytes:
        """Pass over the rest of a line, its end included."""
        ends = [at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0]
        end = min(ends) + 1 if ends else len(data)
        self.offset += end
        self._skipping = not ends
        return data[end:]

    def _scan_part(self, part: tuple[bytes, int]) -> None:
        block, dropped = part
        self._scan(block)
        self.offset += dropped

    def _scan(self, block: bytes) -> None:
        if not block:
            return
        self._block, self._at = block, 0
        self._counted = self._counted_to = 0
        for start, end, needles in self._interesting(block):
            self._at = start
            self._on_line(block[start:end], self.offset + start, needles)
        self._on_block(block, self.offset)
        self.offset += len(block)
        self._before = (self._before + block)[-KEPT:]
        self._block, self._at = b"", 0

    def _interesting(self, block: bytes) -> Iterator[tuple[int, int, Sequence[int]]]:
        search = _search(self._needles, len(block) >= _LONG)
        hits = iter(search.find_matches_as_indexes(block.lower(), overlapping=True))
        hit = next(hits, None)
        start = 0
        while start < len(block):
            if not self._wants_all():
                if hit is None:
                    return
                start = max(start, line_start(block, hit[1]))
            end = line_end(block, start)
            needles = []
            while hit is not None and hit[1] < end:
                needles.append(hit[0])
                hit = next(hits, None)
            yield start, end, needles
            start = end


@lru_cache(maxsize=8)
def _search(needles: tuple[bytes, ...], quick: bool) -> BytesAhoCorasick:
    """Quick searches twice as fast, and takes ten times as long and as much memory to make."""
    kind = Implementation.DFA if quick else Implementation.ContiguousNFA
    return BytesAhoCorasick(list(needles), implementation=kind)


def line_start(block: bytes, at: int) -> int:
    """Where the line begins that holds byte ``at``."""
    start = block.rfind(b"\n", 0, at) + 1
    return max(start, block.rfind(b"\r", start, at) + 1)


def line_end(block: bytes, start: int) -> int:
    """Where the next line begins, looking from within a line."""
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end + 1
    inner = block.find(b"\r", start, end)
    return end if inner < 0 else inner + 1


def _without_long_lines(block: bytes) -> Iterable[tuple[bytes, int]]:
    """Parts of the block without what lies beyond a line's limit, and how much that was."""
    if len(block) <= LONGEST_LINE or not _may_hold_long_line(block):
        return [(block, 0)]
    return _cut(block)


def _may_hold_long_line(block: bytes) -> bool:
    half = LONGEST_LINE // 2
    return any(
        block.find(b"\n", at, at + half) < 0 and block.find(b"\r", at, at + half) < 0
        for at in range(0, len(block) - half + 1, half)
    )


def _cut(block: bytes) -> Iterator[tuple[bytes, int]]:
    start = at = 0
    while at < len(block):
        end = line_end(block, at)
        if end - at > LONGEST_LINE:
            limit = at + LONGEST_LINE
            yield block[start:limit], end - limit
            start = end
        at = end
    yield block[start:], 0
