"""Tracebacks, while they go by: frames of one process until the line that names the exception."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.doctor.text.line import Line, frame

_HEADER = "Traceback (most recent call last)"
_HEADER_OF_GROUP = f"Exception Group {_HEADER}"
_IGNORED = ("Exception ignored in", "--- Logging error ---")
"""What follows was raised where nobody could handle it, and harmed nobody."""
_WORDS = ("Error", "Exception", "Warning", "Timeout", "Failed", "Invalid", "NotFound", "Abort")
"""Names that anybody may begin a line with."""
_UNDERLINES = " ^~"
_MOST_CODE = 10
"""Lines of program text that are kept of a frame; the text of one ends at ``_WIDEST_CODE``."""
_WIDEST_CODE = 500
_MOST_LINES = 400
_MOST_FRAMES = 200
_LAST_LINES = 8
"""A traceback that so few lines follow is where the log ends."""
_MOST_OPEN = 64
TASK = "ray:task"
"""Stands for a frame where Ray names the exception of a task."""
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
_ODD_NAME = re.compile(r"(?P<type>_?[A-Z]\w*)(?:: (?P<message>.*)|$)")
_TWO_WORDS = re.compile(r"_?[A-Z][A-Z0-9]*[a-z]\w*[A-Z]")
_RAISES = re.compile(r"raise (?P<type>(?:\w+\.)*_?[A-Z]\w*)\(")
_OF_A_TASK = re.compile(r"ray\.exceptions\.RayTaskError\(\w+\): \S*ray::")
_IMPLIED = re.compile(r"RayTaskError\((?P<type>\w+)\)|\x1b?ray::")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception and where it came from: ``frames`` are ``file:function``, outermost first;
    ``code`` is the source of the innermost one, where the traceback shows it, in one line.
    ``is_ignored`` is what harms nobody, and a group of exceptions: those in it follow.
    """

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
    has_header: bool = False
    is_group: bool = False
    """Whether it is a group's, and what the group holds is still to come."""
    is_ignored: bool = False
    frames: list[str] = field(default_factory=list)
    depth: int = 0
    """Blanks before the last frame."""
    code: list[str] = field(default_factory=list)
    is_cut: bool = False
    """Whether something else was printed below the last frame."""
    type: str = ""
    last: Line | None = None
    lines: int = 0
    since: int = 0
    """Lines after the last frame, of any process."""

    def go_down(self, line: Line, named: str) -> None:
        self.frames.append(named)
        self.depth, self.code, self.is_cut = _depth(line.text), [], False
        self.last, self.since = line, 0
        self.type = _implied(line.text) or self.type

    def go_into_group(self, line: Line, type_: str) -> None:
        """The group only wraps what follows, and is named where the log ends here."""
        self.is_group, self.is_cut = False, True
        self.last, self.since, self.type = line, 0, type_

    def take(self, text: str) -> None:
        """A line that is no frame and no exception: program text, or printed by somebody."""
        depth = _depth(text)
        may_begin = not self.code and (depth > self.depth or not self.depth)
        goes_on = depth > self.depth and not self.is_cut and len(self.code) < _MOST_CODE
        if (may_begin or goes_on) and text.strip(_UNDERLINES):
            self.code.append(text.strip()[:_WIDEST_CODE])
        self.is_cut = self.is_cut or depth < self.depth

    def raises(self, text: str) -> tuple[str, str] | None:
        """Type and message of an exception by whatever name that stands right below the frames.

        The program text that raises it tells the name; where it does not the name is of two words
        and a message follows, since anybody may print ``Epoch: 3`` between.
        """
        found = _ODD_NAME.fullmatch(text)
        if found is None or not self.has_header or self.is_cut or not self.depth:
            return None
        type_, message = found["type"], found["message"] or ""
        raised = _raised_by(" ".join(self.code)).rpartition(".")[2]
        fits = type_ == raised if raised else message and _TWO_WORDS.match(type_)
        return (type_, message) if fits else None


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
            self._begin(line.source, line.text)
            return None
        named = _frame_or_implied(line.text)
        block = self._open.get(line.source)
        if named is not None:
            if block is None:
                block = self._begin(line.source)
            block.go_down(line, named)
            return None
        if block is None or not block.frames:
            return None
        return self._close(line, block)

    def torn(self) -> list[Raised]:
        """Tracebacks at which the log ends, before their exceptions."""
        return [
            _torn(block, block.last)
            for block in self._open.values()
            if block.last and block.since <= _LAST_LINES
        ]

    def _begin(self, source: str, header: str = "") -> _Open:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        is_ignored = self._ignored.pop(source, 0) > 0
        self._open[source] = _Open(bool(header), _HEADER_OF_GROUP in header, is_ignored)
        return self._open[source]

    def _close(self, line: Line, block: _Open) -> Raised | None:
        found = exception_in(line.text, below_frames=True) or block.raises(line.text[:2000])
        if found is None:
            block.take(line.text)
            return None
        passes = block.is_group or block.is_ignored
        raised = Raised(line, *found, _told(block), passes, " ".join(block.code))
        if block.is_group:
            block.go_into_group(line, found[0])
        else:
            del self._open[line.source]
        return raised

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


def _torn(block: _Open, last: Line) -> Raised:
    code = " ".join(block.code)
    return Raised(last, block.type or _raised_by(code), "", _told(block), code=code)


def _told(block: _Open) -> tuple[str, ...]:
    return tuple(block.frames[-_MOST_FRAMES:])


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


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
    if named is not None:
        return named
    starts_task = _OF_A_TASK.match(text) or (_IMPLIED.search(text[:400]) and exception_in(text))
    return TASK if starts_task else None


def _raised_by(code: str) -> str:
    """The type that a line of program text raises."""
    found = _RAISES.match(code)
    return found["type"] if found else ""


def _implied(text: str) -> str:
    """The type that Ray names ahead of the frames."""
    found = _IMPLIED.search(text[:400])
    return (found["type"] or "") if found else ""
