"""When lines of a log were written, and the first line written at or after a moment.

Only what a line itself says counts: its date and time, with or without a year, as Python's logging,
Ray, vLLM and PyTorch write them. Time zones are left out: a person types what they read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from engine.base.errors import UsageError
from engine.logs.log_file import BLOCK, LogFile

_STAMP = re.compile(
    rb"(?<![\d.-])(?:(?:(\d{4})[-/])?(\d\d)[-/](\d\d)[ T]|[DIWEF](\d\d)(\d\d) )"
    rb"(\d\d):(\d\d):(\d\d)(?!\d)"
)
_REACH = 160
"""Bytes of a line in which its time stands; what comes later is text about another time."""

_ASKED = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d\d?-\d\d?)(?:[ T]+|$))?(?:(?P<clock>\d\d?:\d\d(?::\d\d)?))?\s*"
)
_BACK = re.compile(r"\s*-\s*(?P<count>\d{1,6}(?:\.\d+)?)\s*(?P<unit>[smhd])\s*")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Stamp:
    """``offset`` is where the line begins that says it was written at ``when``."""

    when: datetime
    offset: int


@dataclass(frozen=True)
class Asked:
    """A moment as a person types it: a clock time, one of a day, or so long before the end."""

    day: date | None = None
    clock: time = time()
    back: timedelta | None = None

    @classmethod
    def parse(cls, text: str) -> Asked:
        """``14:03``, ``14:03:20``, ``2026-01-31 14:03``, ``2026-01-31``, ``-10m``; UsageError."""
        if back := _BACK.fullmatch(text):
            return cls(back=timedelta(**{_UNITS[back["unit"]]: float(back["count"])}))
        asked = _ASKED.fullmatch(text)
        try:
            if asked is None or not (asked["date"] or asked["clock"]):
                raise ValueError
            return cls(_day(asked["date"]), _clock(asked["clock"]))
        except ValueError:
            tried = "14:03, 14:03:20, 2026-01-31 14:03 or -10m"
            raise UsageError(f"'{text}' is no time; try {tried}") from None

    def moment(self, oldest: datetime, newest: datetime) -> datetime:
        """In a log from ``oldest`` to ``newest``. A clock time is the last one that it reached."""
        if self.back is not None:
            return max(oldest, newest - self.back)
        found = datetime.combine(self.day or newest.date(), self.clock)
        day_before = found - timedelta(days=1)
        return day_before if not self.day and found > newest and day_before >= oldest else found


def _day(text: str | None) -> date | None:
    if not text:
        return None
    year, month, day = map(int, text.split("-"))
    return date(year, month, day)


def _clock(text: str | None) -> time:
    hour, minute, second = map(int, f"{text or '0:00'}:00".split(":")[:3])
    return time(hour, minute, second)


class LogTimes:
    """The times in a file, taken to rise: a few lines that came late do no harm.

    A file of gigabytes is cut in halves, not read, as long as its lines say when they were written.
    For one thread; ``cancelled`` is asked again and again, and ends whatever is going on.
    """

    def __init__(self, file: LogFile, cancelled: Callable[[], bool] = bool) -> None:
        self._file, self._cancelled = file, cancelled
        self._written = datetime.fromtimestamp(os.fstat(file.descriptor).st_mtime)
        self._blocks = -(-file.size // BLOCK)

    def oldest(self) -> Stamp | None:
        return next(self._from(0, self._blocks), None)

    def newest(self) -> Stamp | None:
        for block in reversed(range(self._blocks)):
            if found := list(self._from(block, block + 1)):
                return found[-1]
        return None

    def at_or_after(self, moment: datetime) -> Stamp | None:
        """The first line written then; None when all were written before."""
        low, high = 0, self._blocks
        while low < high:
            middle = (low + high) // 2
            first = next(self._from(middle, high), None)
            if first is None or first.when >= moment:
                high = middle
            else:
                low = middle + 1
        stamps = self._from(max(0, low - 1), self._blocks)
        return next((stamp for stamp in stamps if stamp.when >= moment), None)

    def _from(self, first: int, last: int) -> Iterator[Stamp]:
        """What the lines say that begin in these blocks."""
        for block in range(first, last):
            if self._cancelled():
                return
            start = self._file.first_line(block * BLOCK)
            end = self._file.first_line(min((block + 1) * BLOCK, self._file.size))
            yield from self._in(self._file.read(start, end), start)

    def _in(self, data: bytes, offset: int) -> Iterator[Stamp]:
        told = -1
        for match in _STAMP.finditer(data):
            start = data.rfind(b"\n", 0, match.start()) + 1
            if start == told or match.start() - start > _REACH:
                continue
            if (when := self._when(match)) is not None:
                told = start
                yield Stamp(when, offset + start)

    def _when(self, match: re.Match[bytes]) -> datetime | None:
        """None for numbers that are no date. A missing year is the last one it can have been."""
        year, *day, hour, minute, second = match.groups()
        month, number = (int(part) for part in day if part is not None)
        try:
            clock = time(int(hour), int(minute), int(second))
            if year is not None:
                return datetime.combine(date(int(year), month, number), clock)
            found = datetime.combine(date(self._written.year, month, number), clock)
            late = found > self._written + timedelta(days=1)
            return found.replace(year=found.year - 1) if late else found
        except ValueError:
            return None
