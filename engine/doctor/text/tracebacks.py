"""Tracebacks, while they go by: frames of one process until the line that names the exception."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.doctor.text.line import Line, frame

_HEADER = "Traceback (most recent call last)"
_IGNORED = ("Exception ignored in", "--- Logging error ---")
"""What follows was raised where nobody could handle it, and harmed nobody."""
_WORDS = ("Error", "Exception", "Warning", "Timeout", "Failed", "Invalid", "NotFound", "Abort")
"""Names that anybody may begin a line with."""
_MOST_LINES = 400
_MOST_OPEN = 64
_EXCEPTION = re.compile(
    r"^(?:E\s+|\| )?(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|timeout|gaierror))"
    r"(?::\s*(?P<message>.*))?$"
)
_NAMED_SO = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Iteration|Warning|Failure|Found|Died|Empty|Full|Killed"
    r"|Abort|Denied|Refused|Expired|Unavailable|Violation|Invalid|InvalidURL|Overflow|timeout|gaierror"
    r"|NotFound|Misuse|Failed|Fault|Duplicate|Closed|Missing\w*|Unsupported\w*|Unserializable|Cancelled"
    r"|\w*Unpickling\w*|\w*Arrow\w+|Group)\Z"
)
_IMPLIED = re.compile(r"RayTaskError\((?P<type>\w+)\)|\x1b?ray::")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception and where it came from: ``frames`` are ``file:function``, outermost first."""

    line: Line
    type: str
    message: str
    frames: tuple[str, ...]
    is_ignored: bool = False

    @property
    def innermost(self) -> str:
        return self.frames[-1] if self.frames else ""


@dataclass
class _Open:
    frames: list[str] = field(default_factory=list)
    lines: int = 0
    is_ignored: bool = False


class Tracebacks:
    """Feed lines in order; an exception comes back with the line that names it."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {"": _Open()}
        """The log may begin in the middle of a traceback."""
        self._ignored: dict[str, int] = {}
        """Of a process the lines for which a traceback that begins is an ignored one."""

    @property
    def any_open(self) -> bool:
        return bool(self._open)

    def is_open(self, source: str) -> bool:
        """Whether frames of that process have gone by without the exception."""
        block = self._open.get(source)
        return block is not None and bool(block.frames)

    def read(self, line: Line) -> Raised | None:
        self._age()
        if line.text.startswith(_IGNORED):
            self._ignored[line.source] = 3
            self._open.setdefault(line.source, _Open())
        if _HEADER in line.text:
            self._begin(line.source)
            return None
        named = _frame_or_implied(line.text)
        block = self._open.get(line.source)
        if named is not None:
            if block is None:
                block = self._begin(line.source)
            block.frames.append(named)
            return None
        if block is None or not block.frames:
            return None
        return self._close(line, block)

    def _begin(self, source: str) -> _Open:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[source] = _Open(is_ignored=self._ignored.pop(source, 0) > 0)
        return self._open[source]

    def _close(self, line: Line, block: _Open) -> Raised | None:
        found = exception_in(line.text)
        if found is None:
            return None
        del self._open[line.source]
        return Raised(line, *found, tuple(block.frames[-200:]), block.is_ignored)

    def _age(self) -> None:
        self._ignored = {source: left - 1 for source, left in self._ignored.items() if left > 1}
        for source, block in list(self._open.items()):
            block.lines += 1
            if block.lines > _MOST_LINES:
                del self._open[source]


def exception_in(text: str) -> tuple[str, str] | None:
    """Type and message of a line such as ``ValueError: too long``; None for other lines."""
    found = _EXCEPTION.match(text[:2000])
    if found is None or not _NAMED_SO.search(found["type"]):
        return None
    return found["type"], found["message"] or ""


def lone(line: Line) -> Raised | None:
    """An exception whose traceback is not in the log."""
    found = exception_in(line.text)
    if found is None or found[0] in _WORDS:
        return None
    return Raised(line, *found, ())


def _frame_or_implied(text: str) -> str | None:
    named = frame(text)
    if named is None and _IMPLIED.search(text[:400]) and exception_in(text):
        return "ray:task"
    return named
