"""Find when lines of a log were written, and the first line written at or after a moment.

Only the time in the line itself counts, with or without a year, as Python's logging, Ray, vLLM and
PyTorch write it. Time zones are ignored: users type what they read.
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
"""Bytes from a line's start that may hold its time; a later time is part of the message."""

_ASKED = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d\d?-\d\d?)(?:[ T]+|$))?(?:(?P<clock>\d\d?:\d\d(?::\d\d)?))?\s*"
)
_BACK = re.compile(r"\s*-\s*(?P<count>\d{1,6}(?:\.\d+)?)\s*(?P<unit>[smhd])\s*")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Stamp:
    """The line at ``offset`` was written at ``when``."""

    when: datetime
    offset: int


@dataclass(frozen=True)
class Asked:
    """A moment as users type it: a time of day, a date, both, or a time before the end."""

    day: date | None = None
    clock: time = time()
    back: timedelta | None = None

    @classmethod
    def parse(cls, text: str) -> Asked:
        """``14:03``, ``14:03:20``, ``2026-01-31 14:03``, ``2026-01-31``, ``-10m``; UsageError."""
        if back := _BACK.fullmatch(text):
            return cls(back=timedelta(**{_UNITS[back["unit"]]: float(back["count"])}))
        match = _ASKED.fullmatch(text)
        try:
            if match is None or not (match["date"] or match["clock"]):
                raise ValueError
            day = date(*map(int, match["date"].split("-"))) if match["date"] else None
            hour, minute, second = map(int, f"{match['clock'] or '0:00'}:00".split(":")[:3])
            return cls(day, time(hour, minute, second))
        except ValueError:
            tried = "14:03, 14:03:20, 2026-01-31 14:03 or -10m"
            raise UsageError(f"'{text}' is no time; try {tried}") from None

    def moment(self, oldest: datetime, newest: datetime) -> datetime:
        """In a log from ``oldest`` to ``newest``; a time of day is the last one in that log."""
        if self.back is not None:
            return max(oldest, newest - self.back)
        moment = datetime.combine(self.day or newest.date(), self.clock)
        day_before = moment - timedelta(days=1)
        return day_before if not self.day and moment > newest and day_before >= oldest else moment


class LogTimes:
    """The times in a file. They are assumed to rise; a few late lines do no harm.

    A large file is searched by bisection as long as its lines have times. For one thread. Every
    method ends early once ``cancelled`` returns True.
    """

    def __init__(self, file: LogFile, cancelled: Callable[[], bool] = bool) -> None:
        self._file, self._cancelled = file, cancelled
        self._written = datetime.fromtimestamp(os.fstat(file.descriptor).st_mtime)
        self._blocks = -(-file.size // BLOCK)

    def oldest(self) -> Stamp | None:
        return next(self._from(0, self._blocks), None)

    def newest(self) -> Stamp | None:
        for block in reversed(range(self._blocks)):
            if stamps := list(self._from(block, block + 1)):
                return stamps[-1]
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
        """The times of the lines that begin in these blocks."""
        for block in range(first, last):
            if self._cancelled():
                return
            start = self._file.first_line(block * BLOCK)
            end = self._file.first_line(min((block + 1) * BLOCK, self._file.size))
            yield from self._in(self._file.read(start, end), start)

    def _in(self, data: bytes, offset: int) -> Iterator[Stamp]:
        last_start = -1
        for match in _STAMP.finditer(data):
            start = data.rfind(b"\n", 0, match.start()) + 1
            if start == last_start or match.start() - start > _REACH:
                continue
            if (moment := self._moment(match)) is not None:
                last_start = start
                yield Stamp(moment, offset + start)

    def _moment(self, match: re.Match[bytes]) -> datetime | None:
        """None for numbers that are no date. A missing year is the latest possible one."""
        year, *day, hour, minute, second = match.groups()
        month, number = (int(part) for part in day if part is not None)
        try:
            clock = time(int(hour), int(minute), int(second))
            if year is not None:
                return datetime.combine(date(int(year), month, number), clock)
            moment = datetime.combine(date(self._written.year, month, number), clock)
            is_future = moment > self._written + timedelta(days=1)
            return moment.replace(year=moment.year - 1) if is_future else moment
        except ValueError:
            return None
