"""Raw console bytes as text that cannot move a cursor, change a colour or hide what it says."""

from __future__ import annotations

import re
import unicodedata

MAX_LINE = 2000

# CSI; strings up to their terminator (OSC, DCS, SOS, PM, APC); two-byte escapes. 7 and 8 bit.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_ERASE_LINE = re.compile(r"(?:\x1b\[|\x9b)[0-2]?K")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_line(raw: bytes) -> str:
    """What a terminal would show of one line, at most ``MAX_LINE`` characters.

    Escape sequences are dropped, a progress bar's carriage returns are resolved to its last state,
    and no control or invisible formatting character survives.
    """
    text = raw[: MAX_LINE * 64].decode("utf-8", errors="replace")
    text = _overwrite(text.rstrip("\r\n"))
    text = _ESCAPES.sub("", text).expandtabs(8)
    text = "".join(char for char in text if unicodedata.category(char) not in _HIDDEN)
    if len(text) > MAX_LINE:
        return f"{text[:MAX_LINE]}… (+{len(text) - MAX_LINE} characters)"
    return text.rstrip()


def _overwrite(text: str) -> str:
    """Resolve carriage returns: a later part covers the start of what stood there."""
    shown = ""
    for part in text.split("\r"):
        if _ERASE_LINE.search(part):
            shown = ""
        part = _ESCAPES.sub("", part)
        shown = part + shown[len(part) :]
    return shown
