"""Numbers, sizes, times, values, curves and commands as text, the same way on screens, in commands,
findings and log entries; and text of others, so that it shows all it contains."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from typing import Any

from engine.base import jsonl


def count_of(number: int, noun: str, *, plural: str = "") -> str:
    """Return, for example, ``1 step`` or ``2 steps``."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(size: float) -> str:
    """Bytes as ``16.06 GB`` or ``4.9 MB``, as the hub counts them."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


MISSING = "–"
_UNITS = ((3600.0, "h", 10_000.0), (1.0, "s", 0.1), (1e-3, "ms", 1e-4), (1e-6, "µs", 1e-7))
"""Seconds of a unit, its name, and the seconds from which it is used."""

_HOURS_AS_DAYS = 48


def seconds(value: float) -> str:
    """Three digits in the unit that fits: ``27.2 µs``, ``12.3 ms``, ``6.4 s``, ``310 s``, ``3 h``.

    Three, because readers multiply these: ``4 rounds x 27.2 µs = 0.109 ms``. Below a tenth of a
    microsecond it is ``0 s``; a value that is not finite is ``– s``.
    """
    if not math.isfinite(value):
        return f"{MISSING} s"
    size = abs(value)
    for unit, name, least in _UNITS:
        if size >= least:
            number = value / unit
            # ``g`` would give 999.5 and more an exponent.
            return f"{number:.3g} {name}" if abs(number) < 999.5 else f"{number:,.0f} {name}"
    return "0 s"


def duration(value: float | None) -> str:
    """``4:07``, ``1:04:07`` or, from two days on, ``2d 7h``."""
    if value is None:
        return MISSING
    minutes, second = divmod(max(0, round(value)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS_AS_DAYS:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def age(value: float) -> str:
    """Whole units of some seconds, as filters take them: ``45s``, ``12m``, ``7h``, ``3d``."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if value >= unit:
            return f"{value // unit:.0f}{name}"
    return f"{max(0.0, value):.0f}s"


def clock(moment: float | None) -> str:
    """``2026-01-31 14:05`` in local time."""
    return MISSING if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


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
