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
_UNDERLINES = " ^~"
_MOST_LINES = 400
_LAST_LINES = 8
"""A traceback that so few lines follow is where the log ends."""
_MOST_OPEN = 64
_EXCEPTION = re.compile(
    r"^(?:E\s+|\| )?(?P<type>(?:[A-Za-z_]\w*\.)*(?:_?[A-Z]\w*|timeout|gaierror))"
    r"(?::\s*(?P<message>.*))?$"
)
_NAMED_SO = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Iteration|Warning|Failure|Found|Died|Empty|Full|Killed"
    r"|Abort|Denied|Refused|Expired|Unavailable|Violation|Invalid|InvalidURL|Overflow|timeout|gaierror"
    r"|NotFound|Misuse|Failed|Fault|Duplicate|Closed|Missing\w*|Unsupported\w*|Unserializable|Cancelled"
    r"|Exhausted|Exceeded|Disconnected|Throttled|Unauthorized|Forbidden|OutOfResources|Interrupted"
    r"|InvalidArgument|TooManyRequests|Unauthenticated|TooLarge|Stopped"
    r"|\w*Unpickling\w*|\w*Arrow\w+|Group)\Z"
)
_OF_A_MODULE = re.compile(r"(?:[A-Za-z_]\w*\.)+_?[A-Z]\w*(?=: |$)")
_RAISES = re.compile(r"raise (?P<type>(?:\w+\.)*_?[A-Z]\w*)\(")
_IMPLIED = re.compile(r"RayTaskError\((?P<type>\w+)\)|\x1b?ray::")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception and where it came from: ``frames`` are ``file:function``, outermost first;
    ``code`` is the source of the innermost one, where the traceback shows it."""

    line: Line
    type: str
    message: str
    frames: tuple[str, ...]
    is_ignored: bool = False
    code: str = ""

    @property
    def innermost(self) -> str:
        return self.frames[-1] if self.frames else ""


@dataclass
class _Open:
    frames: list[str] = field(default_factory=list)
    lines: int = 0
    is_ignored: bool = False
    type: str = ""
    code: str = ""
    last: Line | None = None
    since: int = 0
    """Lines after the last frame, of any process."""


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
            block.last, block.since, block.code = line, 0, ""
            block.type = _implied(line.text) or block.type
            return None
        if block is None or not block.frames:
            return None
        return self._close(line, block)

    def torn(self) -> list[Raised]:
        """Tracebacks at which the log ends, before their exceptions."""
        return [
            Raised(one.last, one.type or _raised_by(one.code), "", tuple(one.frames[-200:]))
            for one in self._open.values()
            if one.last and one.since <= _LAST_LINES
        ]

    def _begin(self, source: str) -> _Open:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[source] = _Open(is_ignored=self._ignored.pop(source, 0) > 0)
        return self._open[source]

    def _close(self, line: Line, block: _Open) -> Raised | None:
        found = exception_in(line.text, below_frames=True)
        if found is None:
            block.code = block.code or line.text.strip(_UNDERLINES)
            return None
        del self._open[line.source]
        return Raised(line, *found, tuple(block.frames[-200:]), block.is_ignored, block.code)

    def _age(self) -> None:
        self._ignored = {source: left - 1 for source, left in self._ignored.items() if left > 1}
        for source, block in list(self._open.items()):
            block.lines += 1
            block.since += 1
            if block.lines > _MOST_LINES:
                del self._open[source]


def exception_in(text: str, *, below_frames: bool = False) -> tuple[str, str] | None:
    """Type and message of a line such as ``ValueError: too long``; None for other lines.

    Below frames a class is an exception by whatever name, where its module is named with it.
    """
    found = _EXCEPTION.match(text[:2000])
    if found is None:
        return None
    is_named_so = _NAMED_SO.search(found["type"]) is not None
    if not is_named_so and not (below_frames and _OF_A_MODULE.match(text)):
        return None
    return _once(found["type"]), (found["message"] or "").removeprefix(": ")


def _once(name: str) -> str:
    """The name, which two ranks may have written into one line at the same time."""
    half = len(name) // 2
    return name[:half] if name[:half] == name[half:] else name


def lone(line: Line) -> Raised | None:
    """An exception whose traceback is not in the log."""
    found = exception_in(line.text)
    if found is None or found[0] in _WORDS or line.text.startswith("E "):
        return None  # Behind the E of a test's report stands what the test has tried out.
    return Raised(line, *found, ())


def _frame_or_implied(text: str) -> str | None:
    named = frame(text)
    if named is None and _IMPLIED.search(text[:400]) and exception_in(text):
        return "ray:task"
    return named


def _raised_by(code: str) -> str:
    """The type that a line of program text raises."""
    found = _RAISES.match(code)
    return found["type"] if found else ""


def _implied(text: str) -> str:
    """The type that Ray names ahead of the frames."""
    found = _IMPLIED.search(text[:400])
    return (found["type"] or "") if found else ""
