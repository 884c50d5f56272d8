"""Raw console bytes as text that cannot move a cursor, change a color or hide what it says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from engine.base.masking import mask_lines, mask_text

MAX_LINE = 2000

# CSI; strings up to their terminator (OSC, DCS, SOS, PM, APC); two-byte escapes. 7 and 8 bit.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
ERASE_LINE = re.compile(r"(?:\x1b\[|\x9b)[0-2]?K")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_line(raw: bytes) -> str:
    """What a terminal would show of one line, at most ``MAX_LINE`` characters.

    Escape sequences are dropped, a progress bar's carriage returns are resolved to its last state,
    and no control or invisible formatting character survives.
    """
    text = raw[: MAX_LINE * 64].decode("utf-8", errors="replace")
    text = _overwrite(text.rstrip("\r\n"))
    text = ESCAPES.sub("", text).expandtabs(8)
    if not text.isprintable():
        text = "".join(char for char in text if unicodedata.category(char) not in _HIDDEN)
    text = mask_text(text)
    if len(text) > MAX_LINE:
        return f"{text[:MAX_LINE]}… (+{len(text) - MAX_LINE} characters)"
    return text.rstrip()


def clean_text(text: str) -> str:
    """Text of several lines, such as a prompt, without anything that a terminal would obey.

    Escape sequences and invisible characters are dropped, every kind of blank is a blank. Secrets
    are masked.
    """
    return _harmless(mask_text(text))


def clean_texts(texts: Iterable[str]) -> list[str]:
    """Each of ``texts`` as ``clean_text`` has it; of thousands at once this costs far less."""
    return [_harmless(text) for text in mask_lines(texts)]


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    text = ESCAPES.sub("", text) if "\x1b" in text or not text.isascii() else text
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line if line.isprintable() else _visible(line) for line in lines)


def blanked(text: str) -> str:
    """The same text with a blank for each character that a terminal would obey or not show.

    Line breaks stay. Every place stays: what is known of places in the text still holds.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _visible(line: str) -> str:
    kept = (c if c.isprintable() else " " if c.isspace() else "" for c in line.expandtabs(4))
    return "".join(kept)


def _overwrite(text: str) -> str:
    """Resolve carriage returns: a later part covers the start of what stood there."""
    shown = ""
    for part in text.split("\r"):
        if ERASE_LINE.search(part):
            shown = ""
        part = ESCAPES.sub("", part)
        shown = part + shown[len(part) :]
    return shown
