"""Reads tracebacks line by line: frames of a process up to the line that names the exception."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.doctor.text.line import Line, frame

_HEADER = "Traceback (most recent call last)"
_HEADER_OF_GROUP = f"Exception Group {_HEADER}"
_ASIDE = {
    "Exception ignored in": "ignored",
    "--- Logging error ---": "ignored",
    "Error in atexit._run_exitfuncs": "exit handler",
    "Exception in thread ": "thread",
}
"""Announces a traceback of an exception that does not end the program -> where it was raised."""
_WORDS = ("Error", "Exception", "Warning", "Timeout", "Failed", "Invalid", "NotFound", "Abort")
"""Words that may begin a line of any text."""
_UNDERLINES = " ^~"
_MOST_CODE = 10
"""Source lines per frame, each of at most ``_WIDEST_CODE`` characters."""
_WIDEST_CODE = 500
_MOST_LINES = 400
_MOST_FRAMES = 200
_LAST_LINES = 8
"""If at most this many lines follow a traceback, the log ends in it."""
_MOST_OPEN = 64
TASK = "ray:task"
"""Replaces a frame where Ray names the exception of a task."""
_EXCEPTION = re.compile(
    r"^(?:E\s+|\| )?(?P<type>(?:[A-Za-z_]\w*\.)*(?:_?[A-Z]\w*|timeout|gaierror))"
    r"(?::\s*(?P<message>.*))?$"
)
_USUAL_NAME = re.compile(
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
_MODEL = re.compile(
    r"(?:from_pretrained|snapshot_download|model\w*)\W[^\"']{0,40}[\"']([\w.-]+/[\w.-]+)[\"']"
)
"""A call that loads a model, with its name on the hub."""
_IMPLIED = re.compile(r"RayTaskError\((?P<type>\w+)\)|\x1b?ray::")


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception and its origin.

    ``frames`` are ``file:function``, outermost first. ``code`` is the source of the innermost one
    in one line, if the traceback shows it, ``model`` a model of the hub that a source line names,
    ``begins`` the number of the line at which it begins. ``aside`` is the ``thread`` or ``exit
    handler`` that raised it, if the program does not end by it. ``is_ignored`` marks exceptions
    without consequences, and groups of exceptions: their members follow.
    """

    line: Line
    type: str
    message: str
    frames: tuple[str, ...]
    is_ignored: bool = False
    code: str = ""
    model: str = ""
    begins: int = 0
    aside: str = ""

    @property
    def innermost(self) -> str:
        return self.frames[-1] if self.frames else ""


@dataclass
class _Open:
    """A traceback whose exception has not been read yet."""

    has_header: bool = False
    is_group: bool = False
    """Whether it is that of an exception group whose members follow."""
    aside: str = ""
    begins: int = 0
    frames: list[str] = field(default_factory=list)
    depth: int = 0
    """Indentation of the last frame."""
    code: list[str] = field(default_factory=list)
    model: str = ""
    is_cut: bool = False
    """Whether other output follows the last frame."""
    type: str = ""
    last: Line | None = None
    lines: int = 0
    since: int = 0
    """Lines of all processes after the last frame."""

    @property
    def last_frames(self) -> tuple[str, ...]:
        return tuple(self.frames[-_MOST_FRAMES:])

    def add_frame(self, line: Line, name: str) -> None:
        self.frames.append(name)
        self.begins = self.begins or line.number
        self.depth, self.code, self.is_cut = _depth(line.text), [], False
        self.last, self.since = line, 0
        # Ray may name the type above the frames.
        implied = _IMPLIED.search(line.text[:400])
        self.type = (implied["type"] if implied else "") or self.type

    def enter_group(self, line: Line, type_: str) -> None:
        """Expect the members of the group. Its own type counts only if the log ends here."""
        self.is_group, self.is_cut = False, True
        self.last, self.since, self.type = line, 0, type_

    def add_text(self, text: str) -> None:
        """Add a line that is neither frame nor exception: source code, or other output."""
        depth = _depth(text)
        may_begin = not self.code and (depth > self.depth or not self.depth)
        may_continue = depth > self.depth and not self.is_cut and len(self.code) < _MOST_CODE
        if (may_begin or may_continue) and text.strip(_UNDERLINES):
            self.code.append(text.strip()[:_WIDEST_CODE])
        if self.frames and (match := _MODEL.search(text[:_WIDEST_CODE])):
            self.model = match[1]
        self.is_cut = self.is_cut or depth < self.depth

    def odd_exception(self, text: str) -> tuple[str, str] | None:
        """Return type and message of an exception of any name directly below the frames.

        The name must be that of the raise statement. Without a raise statement, it must consist of
        two words with a message after it: other output such as ``Epoch: 3`` may come between.
        """
        match = _ODD_NAME.fullmatch(text)
        if match is None or not self.has_header or self.is_cut or not self.depth:
            return None
        type_, message = match["type"], match["message"] or ""
        raised = _raised_by(" ".join(self.code)).rpartition(".")[2]
        fits = type_ == raised if raised else message and _TWO_WORDS.match(type_)
        return (type_, message) if fits else None


class Tracebacks:
    """Reads lines in order; returns an exception with the line that names it."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {"": _Open()}
        """The log may begin in the middle of a traceback."""
        self._announced: dict[str, tuple[str, int]] = {}
        """What ``_ASIDE`` says of a process's next traceback, and for how many lines."""

    @property
    def any_open(self) -> bool:
        return bool(self._open)

    def is_open(self, source: str) -> bool:
        """Whether frames of that process were read, but not yet their exception."""
        block = self._open.get(source)
        return block is not None and bool(block.frames)

    def read(self, line: Line) -> Raised | None:
        self._expire()
        if aside := next((_ASIDE[text] for text in _ASIDE if line.text.startswith(text)), ""):
            self._announced[line.source] = aside, 3
            self._open.setdefault(line.source, _Open())
        if _HEADER in line.text:
            self._begin(line.source, line.text)
            return None
        name = frame(line.text)
        if name is None and _names_task(line.text):
            name = TASK
        block = self._open.get(line.source)
        if name is not None:
            if block is None:
                block = self._begin(line.source)
            block.add_frame(line, name)
            return None
        if block is None or not block.frames:
            return None
        return self._close(line, block)

    def torn(self) -> list[Raised]:
        """Return the tracebacks in which the log ends, before their exceptions."""
        torn = []
        for block in self._open.values():
            if block.last and block.since <= _LAST_LINES:
                code = " ".join(block.code)
                type_ = block.type or _raised_by(code)
                torn.append(Raised(block.last, type_, "", block.last_frames, code=code))
        return torn

    def _begin(self, source: str, header: str = "") -> _Open:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        aside, _ = self._announced.pop(source, ("", 0))
        self._open[source] = _Open(bool(header), _HEADER_OF_GROUP in header, aside)
        return self._open[source]

    def _close(self, line: Line, block: _Open) -> Raised | None:
        """Return the exception that ends the traceback, if the line names it."""
        exception = exception_in(line.text, below_frames=True)
        exception = exception or block.odd_exception(line.text[:2000])
        if exception is None:
            block.add_text(line.text)
            return None
        raised = Raised(
            line,
            *exception,
            block.last_frames,
            is_ignored=block.is_group or block.aside == "ignored",
            code=" ".join(block.code),
            model=block.model,
            begins=block.begins,
            aside=block.aside,
        )
        if block.is_group:
            block.enter_group(line, exception[0])
        else:
            del self._open[line.source]
        return raised

    def _expire(self) -> None:
        """Count one more line, and drop tracebacks that are too long."""
        self._announced = {
            source: (aside, lines - 1)
            for source, (aside, lines) in self._announced.items()
            if lines > 1
        }
        for source, block in list(self._open.items()):
            block.lines += 1
            block.since += 1
            if block.lines > _MOST_LINES:
                del self._open[source]


def exception_in(text: str, *, below_frames: bool = False) -> tuple[str, str] | None:
    """Return type and message of a line such as ``ValueError: too long``; None for other lines.

    Below frames, a class with its module is an exception whatever its name.
    """
    match = _EXCEPTION.match(text[:2000])
    if match is None:
        return None
    has_usual_name = _USUAL_NAME.search(match["type"]) is not None
    if not has_usual_name and not (below_frames and _OF_A_MODULE.match(text)):
        return None
    name = match["type"]
    # Two ranks may have written the name into one line at the same time.
    half = len(name) // 2
    name = name[:half] if name[:half] == name[half:] else name
    return name, (match["message"] or "").removeprefix(": ")


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def without_traceback(line: Line) -> Raised | None:
    """Return the exception that a line names if its traceback is not in the log."""
    exception = exception_in(line.text)
    # pytest marks with E what the test itself has raised.
    if exception is None or exception[0] in _WORDS or line.text.startswith("E "):
        return None
    return Raised(line, *exception, ())


def _names_task(text: str) -> bool:
    """Whether Ray names the exception of a task."""
    if _OF_A_TASK.match(text):
        return True
    return _IMPLIED.search(text[:400]) is not None and exception_in(text) is not None


def _raised_by(code: str) -> str:
    """Return the type that a source line raises."""
    match = _RAISES.match(code)
    return match["type"] if match else ""
