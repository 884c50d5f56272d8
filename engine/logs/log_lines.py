"""What the bytes of one console line say: who wrote it, which step it logs, whether it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ahocorasick_rs import BytesAhoCorasick

from engine.logs.error_lines import ERROR_FIELD, ERROR_WORDS, is_error

DRIVER = "driver"
"""Lines that no Ray worker wrote: the process that was launched, and what it runs itself."""

JUDGES = ("RewardLoopWorker", "RewardManager", "Judge")

_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_SOURCE = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*\((?P<source>[\w:.<>-]{1,80} pid=\d+(?:, ip=[\d.]+)?)\)"
    rb"(?:\x1b\[[0-9;]*m)* ?"
)
_BAR = re.compile(
    # Up to its percentage it is the same in all of its states.
    rb"(?P<name>.{0,160}?):? *\d{1,3}%\|[^\[\x1b]*+"
    # Times, speed and values; what moves the cursor; Ray's "[repeated 4x across cluster]".
    rb"(?:\[(?:[^\[\]]|\[[^\[\]]*\])*+\]|\x1b\[[\d;]*[A-Za-z]|\s)*+(?:\[[^\]]*)?"
)
_STEP = re.compile(rb"step:(\d{1,15})(?: - |\s*$)", re.MULTILINE)
_ERROR_WORDS = BytesAhoCorasick(ERROR_WORDS)
"""All of them in one pass. Of words that overlap the first is enough: they are in one line."""
_REACH = 400
"""Bytes from a line's start within which it says what it is: a line may be megabytes long."""
_BARS_REACH = 64 * 1024
"""Bytes within which a bar is redrawn over and over before a step's metrics follow it."""


def without_colours(data: bytes) -> bytes:
    return _COLOURS.sub(b"", data) if b"\x1b" in data else data


def split_source(line: bytes) -> tuple[bytes, bytes]:
    """Ray's ``Actor pid=1`` and the rest of the line; an empty source when there is none."""
    match = _SOURCE.match(line)
    return (match["source"], line[match.end() :]) if match else (b"", line)


def is_judge(source: str) -> bool:
    """Whether a Ray actor computes rewards."""
    return source.startswith(JUDGES)


def bar_in(text: bytes) -> bytes | None:
    """What the progress bar is called that was drawn last; None where other text stands.

    ``text`` is a line without its source.
    """
    bar = _BAR.fullmatch(without_colours(text).rstrip(b"\r").rpartition(b"\r")[2])
    return bar["name"] if bar else None


def steps_in(data: bytes) -> list[tuple[int, int]]:
    """``(step, place of its line)`` of the lines in which verl logs a step's metrics."""
    found = []
    place = data.find(b"step:")
    while place >= 0:
        # Metric names such as timing_s/step hold the word too.
        if place == 0 or data[place - 1 : place] in (b"\n", b" ", b"\r", b"]"):
            number = _STEP.match(data, place)
            start = _line_start(data, place, _BARS_REACH) if number else -1
            if number and start >= 0 and _says_nothing(data[start:place]):
                found.append((int(number[1]), start))
        place = data.find(b"step:", place + 5)
    return found


def errors_in(data: bytes) -> list[int]:
    """The places of the lines that raise or log an error."""
    found: set[int] = set()
    for place in _error_hints(data):
        start = _line_start(data, place)
        if start >= 0 and start not in found and _says_error(data, start):
            found.add(start)
    return sorted(found)


def sources_in(data: bytes) -> dict[str, int]:
    """How many whole lines each Ray actor wrote; the driver's are the rest."""
    counts: dict[str, int] = {}
    place = 0
    while end := data.find(b"\n", place) + 1:
        match = _SOURCE.match(data, place)
        name = match["source"].decode("ascii", errors="replace") if match else DRIVER
        counts[name] = counts.get(name, 0) + 1
        place = end
    return counts


def _says_nothing(before: bytes) -> bool:
    """Whether what stands in a line before its words is no more than its source and a bar."""
    rest = split_source(before)[1]
    return not rest.strip() or bar_in(rest) is not None


def _line_start(data: bytes, place: int, reach: int = _REACH) -> int:
    """Where the line begins; -1 when that is out of reach."""
    earliest = max(0, place - reach)
    start = data.rfind(b"\n", earliest, place) + 1
    return start if start or not earliest else -1


def _error_hints(data: bytes) -> Iterator[int]:
    """Places that only an error line may hold; most of them are in other lines."""
    yield from (start for _, start, _ in _ERROR_WORDS.find_matches_as_indexes(data.lower()))
    yield from (match.start() for match in ERROR_FIELD.finditer(data))


def _says_error(data: bytes, start: int) -> bool:
    end = data.find(b"\n", start, start + _REACH)
    line = data[start : end if end >= 0 else start + _REACH]
    return is_error(without_colours(line).decode("utf-8", errors="replace"))
