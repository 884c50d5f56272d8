"""Reads a console log as it grows, and records the lines that show a problem."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

from engine.doctor.text.events import Event, Events, shape
from engine.doctor.text.line import LONGEST, Line, plain, read_line, spoken, within
from engine.doctor.text.matching import LOUD, Matcher, RuleIndex, rule_index
from engine.doctor.text.progress import SIGNS, Mark, Progress, advanced
from engine.doctor.text.rules import Role
from engine.doctor.text.scanner import Scanner, line_end, line_start
from engine.doctor.text.tracebacks import Raised, Tracebacks, exception_in, without_traceback
from engine.doctor.text.unknown import is_noise
from engine.doctor.text.wording import is_code, is_handled, is_raise, is_retry

_HEADERS = (
    b"traceback (most recent call last)",
    b"raytaskerror(",
    *(b"retrying", b"continuing", b"proceeding with"),
    *(b"%berror: " % name for name in (b"value", b"runtime", b"type", b"key", b"index", b"os")),
    *(b"%berror: " % name for name in (b"attribute", b"assertion", b"notimplemented")),
    *(b"%berror: " % name for name in (b"filenotfound", b"validation")),
    *(b"falling back", b"error in atexit._run_exitfuncs", b"exception in thread "),
    *SIGNS,
)
"""Searched for in addition to the rules' needles: the start of a traceback, an exception without
one, and messages about the progress of the program."""
_CONTEXT = 24 * 1024
_CONTEXT_LINES = 160
_WINDOW = 16 * 1024
"""Bytes around a needle: what a rule sees of a line longer than ``LONGEST``."""
_ALIKE = 200
"""Lines that differ only in numbers are read this often, then only counted."""
_SHAPES = 4096


class LogReader:
    """``feed`` bytes in any pieces, ``finish`` at the end; ``events`` holds what was recorded."""

    def __init__(self, rules: RuleIndex | None = None) -> None:
        rules = rules or rule_index()
        self._needles = (*rules.needles, *_HEADERS)
        self._rule_needles = len(rules.needles)
        self._matcher = Matcher(rules)
        self._tracebacks = Tracebacks()
        self.events = Events()
        self.progress = Progress()
        self._scanner = Scanner(
            self._needles, self._read_record, self._is_inside_traceback, self._finish_block
        )
        self._lines_before = 1
        self._shapes: Counter[str] = Counter()

    def feed(self, data: bytes) -> None:
        self._scanner.feed(data)

    def finish(self) -> None:
        self._scanner.finish()

    def as_ended(self) -> LogReader:
        """Return the reader as if the log ended here, even inside a line; this one reads on."""
        if not self._scanner.is_inside_line:
            return self
        ended = deepcopy(self)
        ended.finish()
        return ended

    def torn(self) -> list[Event]:
        """Return the events at the end of the log: tracebacks without their exceptions, and a last
        line that a rule matches."""
        mark = self.progress.mark
        torn = [Event(raised.line, None, {}, raised, mark) for raised in self._tracebacks.torn()]
        before = self._scanner.before()
        text = before.rstrip()
        start = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        number = self._lines_before - before.count(b"\n", start)
        line = read_line(text[start:], self._scanner.offset - len(before) + start, number)
        rule = self._matcher.match_last_line(line)
        if rule is not None:
            torn.append(Event(line, rule, {}, None, mark))
        return torn

    def _is_inside_traceback(self) -> bool:
        return self._tracebacks.any_open

    def _finish_block(self, block: bytes, offset: int) -> None:
        self.progress.read_block(block, offset)
        self._lines_before += block.count(b"\n")

    def _read_record(self, raw: bytes, offset: int, needles: Sequence[int]) -> None:
        """Read one line of the log; a JSON record may hold several lines of text."""
        number = self._lines_before + self._scanner.lines_above()
        record = read_line(raw, offset, number)
        if len(raw) > LONGEST and needles:
            hit = raw.lower().find(self._needles[needles[0]])
            text = plain(raw[max(0, hit - _WINDOW // 2) : hit + _WINDOW // 2])
            record = replace(record, text=text)
        for line in spoken(record):
            self._read_line(line, needles)

    def _read_line(self, line: Line, needles: Sequence[int]) -> None:
        raised = self._tracebacks.read(line)
        if raised is None and not needles:
            return
        if (raised is not None and raised.is_ignored) or self._is_repeated(line):
            return
        if any(needle >= self._rule_needles for needle in needles):
            self.progress.read_line(line.text, self._mark)
            if is_handled(line.text):
                self.events.substitutes.append(line)
        if is_retry(line.text):
            self.events.retry_last(line)
        shows_code = is_code(line.text)
        # A log may end with the raise statement, before the exception itself.
        if not shows_code or (is_raise(line.text) and self._tracebacks.is_open(line.source)):
            self._record(line, needles, raised, shows_code)

    def _is_repeated(self, line: Line) -> bool:
        key = shape(line.text)
        if key not in self._shapes and len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        self._shapes[key] += 1
        return self._shapes[key] > _ALIKE

    def _record(
        self, line: Line, needles: Sequence[int], raised: Raised | None, is_quoted: bool
    ) -> None:
        """Record the best match of the line, or its exception if no rule matches."""
        matches = self._matcher.find_matches(
            line, [needle for needle in needles if needle < self._rule_needles]
        )
        if any(match.rule.role is Role.NOISE for match in matches):
            return
        may_stand_alone = all(match.rule.needs_context for match in matches)
        if may_stand_alone and not line.is_quiet and not is_quoted:
            raised = raised or without_traceback(line)
        best = self._matcher.choose(matches, line, lambda: self._frames_above(line), raised)
        if best is None and (raised is None or is_noise(raised)):
            return
        if is_inside_sample(line, raised, self._scanner.before(_CONTEXT)):
            return
        rule, groups = (best.rule, best.groups) if best else (None, {})
        if best is not None and best.is_retried:
            self.events.retries.append(Event(line, rule, groups, raised, self._mark(), is_quoted))
        elif self.events.admit(rule, line):
            self.events.recorded.append(Event(line, rule, groups, raised, self._mark(), is_quoted))

    def _frames_above(self, line: Line) -> str:
        """Return the lines above of the same process, back to the start of the last traceback."""
        texts = [line.text[:400]]
        for raw in reversed(self._scanner.before(_CONTEXT).splitlines()[-_CONTEXT_LINES:]):
            above = read_line(raw)
            if above.source != line.source:
                continue
            texts.append(above.text[:400])
            if "Traceback (most recent call last)" in above.text:
                break
            if len(texts) > 2 and exception_in(above.text) and "ray::" not in above.text:
                break
        return "\n".join((line.source, *map(within, reversed(texts[1:]))))

    def _mark(self) -> Mark:
        return advanced(self.progress.mark, self._scanner.above(), 0)


_MARK = re.compile(rb"\[(?:prompt|response|ground_truth|score)\] |step:\d+ - ")
_BEGINS = re.compile(r"(?:^|\) )\[(?:prompt|response)\] ")
_ENDS = re.compile(r"(?:^|\) )(?:\[(?:ground_truth|score)\] |step:\d+ - )")
"""verl prints samples from ``[prompt]`` to ``[score]``; Ray may omit lines that other processes
print as well."""
_ANY_FIELD = re.compile(rb"(?i)(?:prompt|output|input|label)s?\W{0,3}:")
_FIELD = re.compile(r"\W{0,3}(prompt|output|input|label)s?\W{0,3}:(?: |$)", re.IGNORECASE)
_ELSE = re.compile(
    r"Traceback \(most recent|\{'|[*=]{3,} |\w+_ids:| *File \""
    r"|[^|]{0,80}\d%\||[\w /-]{2,40}[:=] ?\d"
)
"""Output of the program itself below a sample without an end mark."""
_MOST_LINES = 40


def is_inside_sample(line: Line, raised: Raised | None, above: bytes) -> bool:
    """Whether ``line`` belongs to a sample that began in the text ``above`` or in the line itself.

    Where the end of a sample is not marked, errors and exceptions with frames are not taken for a
    part of it: they may have ended the program.
    """
    if _BEGINS.match(line.text) or _is_in_marked_sample(line.source, above):
        return True
    if line.level in LOUD or (raised is not None and raised.frames):
        return False
    if _FIELD.match(line.text):
        return True
    return _ANY_FIELD.search(above) is not None and _is_in_sample_field(line.source, above)


def _is_in_marked_sample(source: str, above: bytes) -> bool:
    """Whether the last mark of the process begins a sample."""
    for mark in reversed(list(_MARK.finditer(above))):
        raw = above[line_start(above, mark.start()) : line_end(above, mark.start())]
        if read_line(raw).source == source:
            text = plain(raw)
            if _ENDS.search(text) or _BEGINS.search(text):
                return not _ENDS.search(text)
    return False


def _is_in_sample_field(source: str, above: bytes) -> bool:
    """Whether the text above ends in a field of several lines, or below the answer to a prompt."""
    nearest = ""
    lines = (read_line(raw) for raw in reversed(above.splitlines()))
    same_process = (line for line in lines if line.source == source)
    for distance, line in enumerate(same_process):
        field = _FIELD.match(line.text)
        is_output = field is None and (line.level or _ELSE.match(line.text))
        if distance >= _MOST_LINES or is_output:
            return False
        if field is not None and (not nearest or field[1].lower() != nearest):
            if nearest or field.end() == len(line.text):
                return True
            nearest = field[1].lower()
    return False
