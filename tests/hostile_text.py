"""Text that is meant to harm: what a log, a prompt or a name may hold, and what must not come out.

Each entry says what it would do to a terminal, or to a program that reads markup.
"""

from __future__ import annotations

import re
import unicodedata

MARKUP = "[red]no color[/red] [@click=app.quit]no click[/] $error [/]"
"""Must be shown as it stands."""

HOSTILE: dict[str, str] = {
    "markup": MARKUP,
    "unclosed markup": "[bold [/nothing] [link=https://example.com]x",
    "color": "\x1b[31mred\x1b[0m",
    "erases the screen": "\x1b[2J\x1b[1;1H",
    "sets the title": "\x1b]0;owned\x07",
    "writes the clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "links": "\x1b]8;;https://example.com/owned\x1b\\x\x1b]8;;\x1b\\",
    "asks the terminal to answer": "\x1b[c\x1b[6n\x1bP$q\x1b\\",
    "resets the terminal": "\x1bc",
    "switches the character set": "\x0e\x1b(0",
    "eight bit sequences": "\x9b31m\x9d0;owned\x9c",
    "unfinished sequence": "\x1b[",
    "unfinished title": "\x1b]0;owned",
    "turned around": "\u202egnp.exe\u202c \u2066x\u2069 \u200fx",
    "invisible": "a\u200bb\u200dc\u2060d\ufeffe\u00adf\U000e0041g",
    "line breaks of Unicode": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
    "NUL and others": "\x00\x01\x07\x08\x7f",
    "carriage return": "covered\rcover",
    "private and unassigned": "\ue000\U0010ffff\u0378",
}

INVALID_UTF8 = b"\xff\xfe\xc0\xaf\xed\xa0\x80\xf5 caf\xe9"
LONE_SURROGATE = "\ud800"
"""What JSON can hold and UTF-8 cannot."""

ALL = " ".join(HOSTILE.values())
LINE = ALL.replace("\r", "")
LONG = MARKUP * 200_000
"""More than 10 MB in one line."""
LONG_RESPONSE = MARKUP * 20_000
"""1 MB: longer than a model of any context writes."""

LINES: tuple[bytes, ...] = (
    *(text.encode() for text in HOSTILE.values()),
    ALL.encode(),
    INVALID_UTF8,
)

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmful(text: str, *, allowed: str = "") -> set[str]:
    """The characters of ``text`` that a terminal would obey or not show, by their code."""
    found = {char for char in set(text) if unicodedata.category(char) in _INVISIBLE}
    return {f"U+{ord(char):04X}" for char in found.difference(allowed)}


def without_colors(output: str) -> str:
    """What is written to a terminal, without the colors that the program chose itself."""
    return _COLOR.sub("", output)
