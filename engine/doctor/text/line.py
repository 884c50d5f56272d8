"""Parses a line of a console log into process, level and text; also the text of JSON records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import orjson

from engine.logs.log_lines import split

LONGEST = 32 * 1024
"""Bytes of a line that are read."""
# Some logs were copied without the escape character.
_ANSI = re.compile(r"\x1b?\[\d{1,3}(?:;\d{1,3}){0,5}m|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_BACKSLASH = "\\"
_REPEATED = re.compile(r"\s*\[repeated (\d{1,9})x across cluster\]$")
_FRAME = re.compile(
    r'\s*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.*))?'
    r"|\s*File (?P<cell>\S+?)(?::\d+)?, in (?P<inside>[^(]+)\("
    # Notebooks link the path of a frame: [/usr/lib/x.py](https://localhost/#) in load(self)
    r"|\[?(?P<linked>(?:~?/\S+?\.py|<ipython-input[^>]*>))\]?(?:\([^)]*\))?(?::\d+)? in "
    r"(?P<of>\w+|<[^>]+>)"
    r"|(?P<input>(?:Cell|Input) .*[Ll]ine \d+)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """``offset`` is its first byte in the log; ``number`` counts from 1.

    ``source`` names the process or rank that printed it; empty if unknown. ``text`` is without
    colors and without the prefixes of loggers and launchers.
    """

    offset: int
    number: int
    source: str
    level: str
    text: str
    times: int = 1
    """How often it was printed: Ray prints a line of many processes once, with their number."""

    @property
    def is_quiet(self) -> bool:
        """Whether its level is one that programs use for what they handle themselves."""
        return self.level in ("DEBUG", "INFO", "NOTICE", "WARNING")


def read_line(raw: bytes, offset: int = 0, number: int = 1) -> Line:
    source, level, text = split(plain(raw[:LONGEST]))
    if text.endswith("across cluster]") and (match := _REPEATED.search(text)):
        return Line(offset, number, source, level, text[: match.start()], int(match[1]))
    return Line(offset, number, source, level, text)


def plain(raw: bytes) -> str:
    """Decode text: remove colors and NUL, replace invalid bytes."""
    text = raw.decode("utf-8", "replace")
    if "[" in text:
        text = _ANSI.sub("", text)
    return text.replace("\x00", "").rstrip("\r\n\t ")


def frame(text: str) -> str | None:
    """Return ``file:function`` of a traceback's frame line, or None for any other line.

    Paths have slashes, on Windows too.
    """
    match = _FRAME.match(text)
    if match is None:
        return None
    file = match["file"] or match["cell"] or match["linked"] or match["input"] or ""
    function = match["function"] or match["inside"] or match["of"] or ""
    return f"{file.replace(_BACKSLASH, '/')}:{function.strip()}"


_ENVIRONMENT = re.compile(
    r"(?:[A-Za-z]:)?[/\\][^\s\"']*?[/\\](?=(?:site|dist)-packages[/\\]|(?:lib[/\\]python3|bin[/\\]))"
)


def within(text: str) -> str:
    """Shorten paths of installed files: remove the path of their environment."""
    shorter = _ENVIRONMENT.sub("/", text)
    return _ENVIRONMENT.sub("/", shorter) if shorter != text else text


_FIELDS = """
detail details err error event exc_info exc_text exception log message msg reason stack stack_trace
stacktrace text traceback
"""
_MESSAGE_FIELDS = frozenset(_FIELDS.split())
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
_DEEPEST = 4


def spoken(line: Line) -> list[Line]:
    """Return the line, or the lines of a JSON record's messages; none for a record of data."""
    if not line.text.startswith('{"'):
        return [line]
    try:
        record = orjson.loads(line.text)
    except orjson.JSONDecodeError:
        return [line]
    level = next((str(record[key]).upper() for key in _LEVELS if key in record), line.level)
    texts = (text for message in _messages(record, False, 0) for text in message.splitlines())
    return [replace(line, level=level, text=text) for text in texts if text.strip()]


def _messages(value: object, is_message: bool, depth: int) -> Iterator[str]:
    if isinstance(value, str) and is_message:
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _messages(inner, is_message or key.lower() in _MESSAGE_FIELDS, depth + 1)
    elif isinstance(value, list) and is_message and depth < _DEEPEST:
        for inner in value:
            yield from _messages(inner, is_message, depth + 1)
