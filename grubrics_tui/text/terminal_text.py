"""Turn console bytes into text that cannot move the cursor, change colors or hide anything."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from engine.base.masking import mask_lines, mask_text
from engine.base.text import ESCAPES, visible_text

MAX_LINE = 2000

ERASE_LINE = re.compile(r"(?:\x1b\[|\x9b)[0-2]?K")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_line(raw: bytes) -> str:
    """Return what a terminal would show of one line, at most ``MAX_LINE`` characters.

    Drops escape sequences, control characters and invisible formatting. Of a progress bar, the last
    state stays.
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
    """Return text of several lines, such as a prompt, that a terminal only prints.

    Drops escape sequences and invisible characters, turns white space into blanks, masks secrets.
    """
    return visible_text(mask_text(text))


def may_show(text: str, wanted: str) -> bool:
    """Whether ``clean_text(text)`` may contain ``wanted``, which is casefolded.

    Cleaning takes fifty times as long. Printable text stays as it is, except for secrets, of which
    ``…`` and the end are shown.
    """
    if wanted in text.casefold() or "…" in wanted:
        return True
    return not text.replace("\n", "").isprintable()


def clean_texts(texts: Iterable[str]) -> list[str]:
    """Clean each text as ``clean_text`` does; much faster for thousands of texts."""
    return [visible_text(text) for text in mask_lines(texts)]


def blanked(text: str) -> str:
    """Replace each character that a terminal would obey or hide by a blank, except line breaks.

    Positions in the text do not change.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _overwrite(text: str) -> str:
    """Resolve carriage returns: a later part overwrites the start of the earlier one."""
    shown = ""
    for part in text.split("\r"):
        if ERASE_LINE.search(part):
            shown = ""
        part = ESCAPES.sub("", part)
        shown = part + shown[len(part) :]
    return shown
