"""Commands as text that a person can copy into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

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
