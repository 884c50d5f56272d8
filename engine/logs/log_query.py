"""Search and filter the lines of a log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.base.literals import required_literals
from engine.logs.log_lines import DRIVER, without_colors

_ANY_SOURCE = r"\([\w:.<>-]{1,80} pid=\d+(?:, ip=[\d.]+)?\)"


_WORTH_FINDING = 3
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
            _checked(pattern)

    def __bool__(self) -> bool:
        return bool(self.patterns or self.source)

    def search(self, data: bytes) -> list[int]:
        """The places of the matching lines in ``data``, which holds whole lines."""
        text = without_colors(data)
        tests = [_Test(pattern, text) for pattern in self._all_patterns()]
        if not tests:
            return []
        first, *others = tests
        found: list[int] = []
        place = first.next_line(0)
        while place is not None:
            end = text.find(b"\n", place) + 1 or len(text)
            if all(test.holds(place, end) for test in others):
                found.append(place)
            place = first.next_line(end)
        return found if text is data else _places(found, text, data)

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
        self._text = text if _minds_case(pattern) else text.lower()
        self._pattern = re.compile(_to_bytes(pattern), re.MULTILINE)
        literals = required_literals(pattern, lambda text: len(text) >= _WORTH_FINDING)
        self._literal = _to_bytes(literals[0]) if len(literals) == 1 else b""

    def next_line(self, place: int) -> int | None:
        """The start of the first line at or after ``place`` that holds a match within itself."""
        if self._literal:
            return self._next_with_literal(place)
        text = self._text
        while place < len(text):
            match = self._pattern.search(text, place)
            if match is None or match.start() >= len(text):
                return None
            start = text.rfind(b"\n", place, match.start()) + 1 or place
            end = text.find(b"\n", match.start()) + 1 or len(text)
            if match.end() < end or self.holds(start, end):
                return start
            place = end
        return None

    def _next_with_literal(self, place: int) -> int | None:
        text = self._text
        while (found := text.find(self._literal, place)) >= 0:
            start = text.rfind(b"\n", place, found) + 1 or place
            end = text.find(b"\n", found) + 1 or len(text)
            if self.holds(start, end):
                return start
            place = end
        return None

    def holds(self, start: int, end: int) -> bool:
        """Whether the line from ``start`` to ``end`` matches."""
        stop = end - 1 if self._text[end - 1 : end] == b"\n" else end
        return self._pattern.search(self._text, start, stop) is not None


def highlighter(pattern: str) -> re.Pattern[str] | None:
    """The pattern for text on the screen, matched as ``Query`` does it.

    None for one that may take for ever: nothing can interrupt it, and the screen must not wait.
    """
    unbounded = re.findall(r"[*+]|\{\d*,\}", re.sub(r"\\.|\[[^]]*\]", "x", pattern))
    if len(unbounded) > 2 or re.search(r"\)[*+{?]|\\\d|\(\?P=", pattern):
        return None
    return re.compile(pattern, 0 if _minds_case(pattern) else re.IGNORECASE)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _minds_case(pattern: str) -> bool:
    plain = re.sub(rb"\\.", b"", _to_bytes(pattern))
    return plain != plain.lower()


def _checked(pattern: str) -> None:
    try:
        re.compile(_to_bytes(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"'{pattern}' is no regular expression: {error}") from error


def _places(found: list[int], text: bytes, data: bytes) -> list[int]:
    """Where the lines that begin at ``found`` in ``text`` begin in ``data``, line by line alike."""
    places, at_text, at_data = [], 0, 0
    for start in found:
        for _ in range(text.count(b"\n", at_text, start)):
            at_data = data.find(b"\n", at_data) + 1
        places.append(at_data)
        at_text = start
    return places
