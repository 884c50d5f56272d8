"""Values, curves and commands as text, the same way on screens, in commands, findings and log
entries; and text of others, so that it shows all it contains."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from engine.base import jsonl


def format_config_value(value: Any) -> str:
    """Format a value as one line, as in a config file: ``null``, ``true``, ``[1, 2]``."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(format_config_value(item) for item in value)}]"
    if isinstance(value, dict):
        items = (f"{key}: {format_config_value(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    return jsonl.line(str(value)) or "''"


BLOCKS = "▁▂▃▄▅▆▇█"
_FLAT = 0.3
"""Height of a curve whose values are all equal."""


def sparkline(values: Sequence[float | None], levels: str = BLOCKS) -> str:
    """One character of ``levels`` (lowest first) per value; a blank for None and for a NaN.

    The lowest value is drawn at the bottom and the highest at the top.
    """
    present = [value for value in values if value is not None and value == value]
    if not present:
        return " " * len(values)
    low, high = min(present), max(present)
    is_flat = high - low <= 1e-9 * max(abs(high), abs(low))
    top = len(levels) - 1

    def draw(value: float | None) -> str:
        if value is None or value != value:
            return " "
        return levels[round((_FLAT if is_flat else (value - low) / (high - low)) * top)]

    return "".join(map(draw, values))


# CSI; strings up to their terminator (OSC, DCS, SOS, PM, APC); two-byte escapes. 7 and 8 bit.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


def visible_text(text: str) -> str:
    """Return text of several lines without what a reader cannot see: escape sequences, control
    characters, invisible formatting, half surrogate pairs. White space becomes blanks.
    """
    if text.isprintable():
        return text
    text = ESCAPES.sub("", text) if "\x1b" in text or not text.isascii() else text
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(
        line
        if line.isprintable()
        else "".join(
            char if char.isprintable() else " " if char.isspace() else ""
            for char in line.expandtabs(4)
        )
        for line in lines
    )


_CHANGED = re.compile(r"(?<= ) |[\\']")
"""What `$'...'` writes in another way: a blank after a blank, which messages would drop."""


def format_command(words: Iterable[str]) -> str:
    """Return the command in one line of printable text: a word of several lines as ``$'a\\nb'``."""
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    if word.isprintable() and "  " not in word:
        return shlex.quote(word)
    quoted = _CHANGED.sub(lambda match: _ESCAPES[match[0]], word)
    return "$'" + "".join(c if c.isprintable() else _escape(c) for c in quoted) + "'"


_ESCAPES = {" ": r"\040", "\\": r"\\", "'": r"\'", "\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _escape(char: str) -> str:
    """The escape of a character that is not printable, as Bash, Zsh and ksh read it."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if code < 0x80:
        return f"\\{code:03o}"
    if 0xDC80 <= code <= 0xDCFF:  # A byte of a file name that is no UTF-8.
        return f"\\{code - 0xDC00:03o}"
    return f"\\U{code:08x}"
