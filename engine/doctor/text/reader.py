"""Reads a console log as it grows and keeps what tells of trouble."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy

from engine.doctor.text.events import Event, Events, shape
from engine.doctor.text.line import LONGEST, Line, plain, read_line, spoken, within
from engine.doctor.text.matching import LOUD, Book, Matcher, book, is_boilerplate
from engine.doctor.text.progress import SIGNS, Mark, Progress, advanced
from engine.doctor.text.scanner import Scanner, line_end, line_start
from engine.doctor.text.tracebacks import Raised, Tracebacks, exception_in, lone
from engine.doctor.text.unknown import is_noise
from engine.doctor.text.wording import is_code, is_handled, is_raise, is_retry

_HEADERS = (
    b"traceback (most recent call last)",
    b"raytaskerror(",
    *(b"retrying", b"continuing", b"proceeding with"),
    *(b"%berror: " % name for name in (b"value", b"runtime", b"type", b"key", b"index", b"os")),
    *(b"%berror: " % name for name in (b"attribute", b"assertion", b"notimplemented")),
    *(b"%berror: " % name for name in (b"filenotfound", b"validation")),
    b"falling back",
    *SIGNS,
)
"""Beside the rules' needles: where a traceback begins, or an exception stands alone; what a program
says of its own course."""
_CONTEXT = 24 * 1024
_CONTEXT_LINES = 160
_WINDOW = 16 * 1024
"""Bytes around a needle that a rule sees of a line that is too long to be seen whole."""
_ALIKE = 200
"""Lines that differ only in numbers are read so often, then only counted."""
_SHAPES = 4096


class LogReader:
    """``feed`` bytes in any pieces, ``finish`` at the end; ``events`` holds what was seen."""

    def __init__(self, rules: Book | None = None) -> None:
        rules = rules or book()
        self._needles = (*rules.needles, *_HEADERS)
        self._rules = len(rules.needles)
        self._matcher = Matcher(rules)
        self._tracebacks = Tracebacks()
        self.events = Events()
        self.progress = Progress()
        self._scanner = Scanner(self._needles, self._line, self._is_inside_traceback, self._passed)
        self._lines_before = 1
        self._shapes: Counter[str] = Counter()

    def feed(self, data: bytes) -> None:
        self._scanner.feed(data)

    def finish(self) -> None:
        self._scanner.finish()

    def ended(self) -> LogReader:
        """What it would be if the log ended here, in the middle of a line maybe; it reads on."""
        if not self._scanner.is_inside_line:
            return self
        other = copy(self)
        other._matcher, other.events = self._matcher.copied(), self.events.copied()
        other._tracebacks = deepcopy(self._tracebacks)
        other.progress, other._shapes = copy(self.progress), Counter(self._shapes)
        other._scanner = self._scanner.calling(
            other._line, other._is_inside_traceback, other._passed
        )
        other.finish()
        return other

    def torn(self) -> list[Event]:
        """What the log ends in: tracebacks without their exceptions, telling last words."""
        told = self._tracebacks.torn()
        mark = self.progress.mark
        return [*(Event(one.line, None, {}, one, mark) for one in told), *self._last_words()]

    def _last_words(self) -> Iterator[Event]:
        whole = self._scanner.before()
        told = whole.rstrip()
        start = max(told.rfind(b"\n"), told.rfind(b"\r")) + 1
        number = self._lines_before - whole.count(b"\n", start)
        line = read_line(told[start:], self._scanner.offset - len(whole) + start, number)
        rule = self._matcher.last_words(line)
        if rule is not None:
            yield Event(line, rule, {}, None, self.progress.mark)

    def _is_inside_traceback(self) -> bool:
        return self._tracebacks.any_open

    def _passed(self, block: bytes, offset: int) -> None:
        self.progress.read(block, offset)
        self._lines_before += block.count(b"\n")

    def _line(self, raw: bytes, offset: int, needles: Sequence[int]) -> None:
        for line in spoken(self._read(raw, offset, needles)):
            self._look(line, needles)

    def _look(self, line: Line, needles: Sequence[int]) -> None:
        raised = self._tracebacks.read(line)
        if raised is None and not needles:
            return
        if (raised is not None and raised.is_ignored) or self._is_worn(line):
            return
        if any(one >= self._rules for one in needles):
            self._hear(line)
        if is_retry(line.text):
            self.events.retry_last(line)
        shows_code = is_code(line.text)
        if not shows_code or self._is_last_word(line):
            self._note(line, needles, raised, shows_code)

    def _hear(self, line: Line) -> None:
        """What the program says of its own course."""
        self.progress.hear(line.text, self._mark)
        if is_handled(line.text):
            self.events.add_substitute(line)

    def _is_last_word(self, line: Line) -> bool:
        """The program text that raises: all there is of a log that ends before the exception."""
        return is_raise(line.text) and self._tracebacks.is_open(line.source)

    def _note(
        self, line: Line, needles: Sequence[int], raised: Raised | None, quoted: bool
    ) -> None:
        found = self._matcher.matches(line, [one for one in needles if one < self._rules])
        if is_boilerplate(found):
            return
        if not (line.is_quiet or quoted or any(one.rule.above is None for one in found)):
            raised = raised or lone(line)
        best = self._matcher.believed(found, line, lambda: self._above(line))
        if best is None and (raised is None or is_noise(raised)):
            return
        if is_inside_sample(line, raised, self._scanner.before(_CONTEXT)):
            return
        rule, groups = (best.rule, best.groups) if best else (None, {})
        if best is not None and best.is_retried:
            self.events.add_retry(Event(line, rule, groups, raised, self._mark(), quoted))
        elif self.events.admit(rule, line):
            self.events.recorded.append(Event(line, rule, groups, raised, self._mark(), quoted))

    def _read(self, raw: bytes, offset: int, needles: Sequence[int]) -> Line:
        number = self._lines_before + self._scanner.lines_above()
        line = read_line(raw, offset, number)
        if len(raw) <= LONGEST or not needles:
            return line
        at = raw.lower().find(self._needles[needles[0]])
        around = raw[max(0, at - _WINDOW // 2) : at + _WINDOW // 2]
        return Line(offset, number, line.source, line.level, plain(around))

    def _is_worn(self, line: Line) -> bool:
        key = shape(line.text)
        if key not in self._shapes and len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        self._shapes[key] += 1
        return self._shapes[key] > _ALIKE

    def _above(self, line: Line) -> str:
        """The lines above of the same process, from the last traceback's beginning on."""
        text = [line.text[:400]]
        for raw in reversed(self._scanner.before(_CONTEXT).splitlines()[-_CONTEXT_LINES:]):
            other = read_line(raw)
            if other.source != line.source:
                continue
            text.append(other.text[:400])
            if "Traceback (most recent call last)" in other.text:
                break
            if len(text) > 2 and exception_in(other.text) and "ray::" not in other.text:
                break
        return "\n".join((line.source, *map(within, reversed(text[1:]))))

    def _mark(self) -> Mark:
        return advanced(self.progress.mark, self._scanner.above(), 0)


_MARK = re.compile(rb"\[(?:prompt|response|ground_truth|score)\] |step:\d+ - ")
_BEGINS = re.compile(r"(?:^|\) )\[(?:prompt|response)\] ")
_ENDS = re.compile(r"(?:^|\) )(?:\[(?:ground_truth|score)\] |step:\d+ - )")
"""verl's samples: ``[prompt]`` to ``[score]``, of which Ray may leave out what others say too."""
_ANY_FIELD = re.compile(rb"(?i)(?:prompt|output|input|label)s?\W{0,3}:")
_FIELD = re.compile(r"\W{0,3}(prompt|output|input|label)s?\W{0,3}:(?: |$)", re.IGNORECASE)
_ELSE = re.compile(
    r"Traceback \(most recent|\{'|[*=]{3,} |\w+_ids:| *File \""
    r"|[^|]{0,80}\d%\||[\w /-]{2,40}[:=] ?\d"
)
"""What a program says itself below a sample whose end it does not mark."""
_MOST_LINES = 40


def is_inside_sample(line: Line, raised: Raised | None, above: bytes) -> bool:
    """Whether ``line`` stands in a sample: one that has begun in the text ``above``, or here.

    Where a program does not mark the end of its samples, what is loud or was raised below frames is
    believed all the same: it may be the error that ended the program.
    """
    if _BEGINS.match(line.text) or _is_in_marked(line.source, above):
        return True
    if line.level in LOUD or (raised is not None and raised.frames):
        return False
    if _FIELD.match(line.text):
        return True
    return _ANY_FIELD.search(above) is not None and _is_in_field(line.source, above)


def _is_in_marked(source: str, above: bytes) -> bool:
    """Whether the last mark of the process begins a sample."""
    for mark in reversed(list(_MARK.finditer(above))):
        raw = above[line_start(above, mark.start()) : line_end(above, mark.start())]
        if read_line(raw).source == source:
            text = plain(raw)
            if _ENDS.search(text) or _BEGINS.search(text):
                return not _ENDS.search(text)
    return False


def _is_in_field(source: str, above: bytes) -> bool:
    """Below a field that begins a text of several lines, or below the answer to a prompt."""
    nearest = ""
    for place, line in enumerate(_upwards(source, above)):
        field = _FIELD.match(line.text)
        if place >= _MOST_LINES or (field is None and (line.level or _ELSE.match(line.text))):
            return False
        if field is not None and (not nearest or field[1].lower() != nearest):
            if nearest or field.end() == len(line.text):
                return True
            nearest = field[1].lower()
    return False


def _upwards(source: str, above: bytes) -> Iterator[Line]:
    """Lines of the process, the nearest first."""
    lines = (read_line(raw) for raw in reversed(above.splitlines()))
    return (line for line in lines if line.source == source)
