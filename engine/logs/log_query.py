"""Search and filter the lines of a log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.base.literals import required_literals
from engine.logs.log_lines import DRIVER, without_colors

_ANY_SOURCE = r"\([\w:.<>-]{1,80} pid=\d+(?:, ip=[\d.]+)?\)"


_RARE_LENGTH = 3
"""Characters: most lines contain shorter texts."""


@dataclass(frozen=True)
class Query:
    """Lines that every one of ``patterns`` matches, written by ``source`` (empty: by anybody).

    A pattern in small letters ignores case, as in vim and less. Colors are not part of a line.
    """

    patterns: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            _check_pattern(pattern)

    def __bool__(self) -> bool:
        return bool(self.patterns or self.source)

    def search(self, data: bytes) -> list[int]:
        """Return the offsets of the matching lines in ``data``, which holds complete lines."""
        text = without_colors(data)
        tests = [_Test(pattern, text) for pattern in self._all_patterns()]
        if not tests:
            return []
        first, *others = tests
        offsets: list[int] = []
        start = first.next_line(0)
        while start is not None:
            end = text.find(b"\n", start) + 1 or len(text)
            if all(test.holds(start, end) for test in others):
                offsets.append(start)
            start = first.next_line(end)
        return offsets if text is data else _original_offsets(offsets, text, data)

    def _all_patterns(self) -> tuple[str, ...]:
        if self.source == DRIVER:
            return (*self.patterns, f"^(?!{_ANY_SOURCE})")
        if self.source:
            return (*self.patterns, rf"^\({re.escape(self.source)}\)")
        return self.patterns


class _Test:
    """One pattern over one piece of text."""

    def __init__(self, pattern: str, text: bytes) -> None:
        # Comparing small letters is ten times as quick as a search that ignores case.
        self._text = text if _is_case_sensitive(pattern) else text.lower()
        self._pattern = re.compile(_to_bytes(pattern), re.MULTILINE)
        literals = required_literals(pattern, lambda text: len(text) >= _RARE_LENGTH)
        self._literal = _to_bytes(literals[0]) if len(literals) == 1 else b""

    def next_line(self, offset: int) -> int | None:
        """The start of the first line at or after ``offset`` that holds a match within itself."""
        if self._literal:
            return self._next_with_literal(offset)
        text = self._text
        while offset < len(text):
            match = self._pattern.search(text, offset)
            if match is None or match.start() >= len(text):
                return None
            start = text.rfind(b"\n", offset, match.start()) + 1 or offset
            end = text.find(b"\n", match.start()) + 1 or len(text)
            if match.end() < end or self.holds(start, end):
                return start
            offset = end
        return None

    def _next_with_literal(self, offset: int) -> int | None:
        text = self._text
        while (match := text.find(self._literal, offset)) >= 0:
            start = text.rfind(b"\n", offset, match) + 1 or offset
            end = text.find(b"\n", match) + 1 or len(text)
            if self.holds(start, end):
                return start
            offset = end
        return None

    def holds(self, start: int, end: int) -> bool:
        """Whether the line from ``start`` to ``end`` matches."""
        stop = end - 1 if self._text[end - 1 : end] == b"\n" else end
        return self._pattern.search(self._text, start, stop) is not None


def highlighter(pattern: str) -> re.Pattern[str] | None:
    """The pattern for text on the screen, matched as ``Query`` does it.

    None for one that may take forever: nothing can interrupt it, and the screen must not wait.
    """
    unbounded = re.findall(r"[*+]|\{\d*,\}", re.sub(r"\\.|\[[^]]*\]", "x", pattern))
    if len(unbounded) > 2 or re.search(r"\)[*+{?]|\\\d|\(\?P=", pattern):
        return None
    return re.compile(pattern, 0 if _is_case_sensitive(pattern) else re.IGNORECASE)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _is_case_sensitive(pattern: str) -> bool:
    plain = re.sub(rb"\\.", b"", _to_bytes(pattern))
    return plain != plain.lower()


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(_to_bytes(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"'{pattern}' is no regular expression: {error}") from error


def _original_offsets(offsets: list[int], text: bytes, data: bytes) -> list[int]:
    """Return the offsets in ``data`` of the lines that begin at ``offsets`` in ``text``.

    Both have the same lines; ``text`` has no colors.
    """
    originals, in_text, in_data = [], 0, 0
    for start in offsets:
        for _ in range(text.count(b"\n", in_text, start)):
            in_data = data.find(b"\n", in_data) + 1
        originals.append(in_data)
        in_text = start
    return originals
