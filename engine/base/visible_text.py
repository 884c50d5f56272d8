"""Text that shows all it contains: nothing in it moves a cursor, turns text around or hides."""

from __future__ import annotations

import re

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
