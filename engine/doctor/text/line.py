"""One line of a console log: whose it is, how loud it is, and what it says, as JSON too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from engine.logs.log_lines import split

LONGEST = 32 * 1024
"""Bytes of a line that are looked at, around the place that drew attention to it."""
# Some logs were copied without the escape character.
_ANSI = re.compile(r"\x1b?\[\d{1,3}(?:;\d{1,3}){0,5}m|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_BACKSLASH = "\\"
_FRAME = re.compile(
    r'\s*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.*))?'
    r"|\s*File (?P<cell>\S+?)(?::\d+)?, in (?P<inside>[^(]+)\("
    r"|(?P<input>(?:Cell|Input) .*[Ll]ine \d+|\[?/\S+\.py\]?\S*(?::\d+)? in [\w<>]+.*)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """``offset`` is the byte at which it begins, ``number`` counts from 1.

    ``source`` names the process or rank that printed it, empty when the line does not tell;
    ``text`` is without colors and without what loggers and launchers put before it.
    """

    offset: int
    number: int
    source: str
    level: str
    text: str

    @property
    def is_quiet(self) -> bool:
        """Said at a level at which programs tell of what they deal with themselves."""
        return self.level in ("DEBUG", "INFO", "NOTICE", "WARNING")


def read_line(raw: bytes, offset: int = 0, number: int = 1) -> Line:
    return Line(offset, number, *split(plain(raw[:LONGEST])))


def plain(raw: bytes) -> str:
    """Readable text: no colors, no NUL, invalid bytes replaced."""
    text = raw.decode("utf-8", "replace")
    if "[" in text:
        text = _ANSI.sub("", text)
    return text.replace("\x00", "").rstrip("\r\n\t ")


def frame(text: str) -> str | None:
    """``file:function`` of a traceback's frame line, or None for any other line.

    Files are told with slashes, on Windows too.
    """
    found = _FRAME.match(text)
    if found is None:
        return None
    file = found["file"] or found["cell"] or found["input"] or ""
    function = found["function"] or found["inside"] or ""
    return f"{file.replace(_BACKSLASH, '/')}:{function.strip()}"


_OF_AN_ENVIRONMENT = re.compile(
    r"(?:[A-Za-z]:)?[/\\][^\s\"']*?[/\\](?=(?:site|dist)-packages[/\\]|(?:lib[/\\]python3|bin[/\\]))"
)


def within(text: str) -> str:
    """The text with paths of installed files from their environment's packages on."""
    shorter = _OF_AN_ENVIRONMENT.sub("/", text)
    return _OF_AN_ENVIRONMENT.sub("/", shorter) if shorter != text else text


_FIELDS = """
detail details err error event exc_info exc_text exception log message msg reason stack stack_trace
stacktrace text traceback
"""
_SAYING = frozenset(_FIELDS.split())
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
_DEEPEST = 4


def spoken(line: Line) -> list[Line]:
    """The line itself, or what a JSON record says, line by line; nothing for a record of data."""
    if not line.text.startswith('{"'):
        return [line]
    try:
        record = orjson.loads(line.text)
    except orjson.JSONDecodeError:
        return [line]
    level = next((str(record[key]).upper() for key in _LEVELS if key in record), line.level)
    texts = (text for said in _said(record, False, 0) for text in said.splitlines())
    return [replace(line, level=level, text=text) for text in texts if text.strip()]


def _said(value: Any, speaks: bool, depth: int) -> Iterator[str]:
    if isinstance(value, str) and speaks:
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _said(inner, speaks or key.lower() in _SAYING, depth + 1)
    elif isinstance(value, list) and speaks and depth < _DEEPEST:
        for inner in value:
            yield from _said(inner, speaks, depth + 1)
