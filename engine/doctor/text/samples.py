"""Samples that a program prints: whatever a data set or a model says in them is no symptom."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.doctor.text.line import Line, plain, read_line
from engine.doctor.text.matching import LOUD
from engine.doctor.text.scanner import line_end, line_start
from engine.doctor.text.tracebacks import Raised

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
