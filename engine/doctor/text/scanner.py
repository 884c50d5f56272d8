"""Finds in a stream of bytes the few lines that are worth reading.

Only whole lines are searched, so it does not matter how the stream was cut. Memory is bounded by
the longest line that is read and by the context before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

BLOCK = 1024 * 1024
LONGEST_LINE = 128 * 1024
"""Bytes of a line that are read; the rest up to its end is skipped."""
_LONG = BLOCK // 2
"""A block of this size comes from a long log: a faster search repays its preparation."""
CONTEXT = 64 * 1024
"""Bytes before the current line that stay readable."""


class Scanner:
    """Calls ``on_line(raw, offset, needles)`` for lines that hold a needle.

    While ``wants_all()`` is true, it is called for all lines. Lines end at ``\\n`` or ``\\r``: each
    state of a progress bar is a line.
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
        """Whether the stream is in the rest of a line that was too long."""
        self.offset = 0
        """First byte of ``_pending`` in the stream."""
        self._before = b""
        self._block, self._line_start = b"", 0
        self._counted = self._counted_to = 0

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK):
            self._feed_block(data[start : start + BLOCK])

    def finish(self) -> None:
        """Read the rest as a line, even without a line end."""
        if self._pending:
            block, self._pending = self._pending, b""
            self._scan(block)

    @property
    def is_inside_line(self) -> bool:
        """Whether the stream has stopped before the end of a line."""
        return bool(self._pending)

    def before(self, size: int = CONTEXT) -> bytes:
        """Return the bytes before the current line; the first line may be cut."""
        above = self._block[max(0, self._line_start - size) : self._line_start]
        missing = size - len(above)
        return self._before[max(0, len(self._before) - missing) :] + above if missing else above

    def above(self) -> bytes:
        """Return the current block above the line; ``on_block`` has received the earlier ones."""
        return self._block[: self._line_start]

    def lines_above(self) -> int:
        """Return the number of line ends in ``above``, counted incrementally."""
        self._counted += self._block.count(b"\n", self._counted_to, self._line_start)
        self._counted_to = self._line_start
        return self._counted

    def _feed_block(self, data: bytes) -> None:
        if self._skipping:
            ends = [index for index in (data.find(b"\n"), data.find(b"\r")) if index >= 0]
            end = min(ends) + 1 if ends else len(data)
            self.offset += end
            self._skipping = not ends
            data = data[end:]
        self._pending += data
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        lines, self._pending = self._pending[:end], self._pending[end:]
        for part, dropped in _without_long_lines(lines):
            self._scan(part)
            self.offset += dropped
        if len(self._pending) > LONGEST_LINE:
            part, dropped = self._pending[:LONGEST_LINE], len(self._pending) - LONGEST_LINE
            self._pending = b""
            self._scan(part)
            self.offset += dropped
            self._skipping = True

    def _scan(self, block: bytes) -> None:
        if not block:
            return
        self._block, self._line_start = block, 0
        self._counted = self._counted_to = 0
        for start, end, needles in self._find_lines(block):
            self._line_start = start
            self._on_line(block[start:end], self.offset + start, needles)
        self._on_block(block, self.offset)
        self.offset += len(block)
        self._before = (self._before + block)[-CONTEXT:]
        self._block, self._line_start = b"", 0

    def _find_lines(self, block: bytes) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yield start, end and needles of each line to read."""
        search = _automaton(self._needles, len(block) >= _LONG)
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
def _automaton(needles: tuple[bytes, ...], is_fast: bool) -> BytesAhoCorasick:
    """Build a search. The fast one takes half as long, but ten times the memory and set-up time."""
    kind = Implementation.DFA if is_fast else Implementation.ContiguousNFA
    return BytesAhoCorasick(list(needles), implementation=kind)


def line_start(block: bytes, index: int) -> int:
    """Return the start of the line that contains byte ``index``."""
    start = block.rfind(b"\n", 0, index) + 1
    return max(start, block.rfind(b"\r", start, index) + 1)


def line_end(block: bytes, start: int) -> int:
    """Return the start of the next line."""
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end + 1
    inner = block.find(b"\r", start, end)
    return end if inner < 0 else inner + 1


def _without_long_lines(block: bytes) -> Iterable[tuple[bytes, int]]:
    """Split the block after the limit of each long line; return parts and skipped bytes."""
    if len(block) <= LONGEST_LINE:
        return [(block, 0)]
    # Without a line end in half the limit, there may be a long line.
    half = LONGEST_LINE // 2
    may_have_long_line = any(
        block.find(b"\n", start, start + half) < 0 and block.find(b"\r", start, start + half) < 0
        for start in range(0, len(block) - half + 1, half)
    )
    return _split_at_long_lines(block) if may_have_long_line else [(block, 0)]


def _split_at_long_lines(block: bytes) -> Iterator[tuple[bytes, int]]:
    part_start = start = 0
    while start < len(block):
        end = line_end(block, start)
        if end - start > LONGEST_LINE:
            limit = start + LONGEST_LINE
            yield block[part_start:limit], end - limit
            part_start = end
        start = end
    yield block[part_start:], 0
