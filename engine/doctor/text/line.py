"""One line of a console log: whose it is, how loud it is, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.logs.log_prefix import split

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
    ``text`` is without colours and without what loggers and launchers put before it.
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
    """Readable text: no colours, no NUL, invalid bytes replaced."""
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
