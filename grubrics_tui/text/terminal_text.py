"""Text that cannot move the cursor, change colors or hide anything; text cut to a width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

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


def head_of_cut(names: Collection[str], width: int) -> int:
    """How many characters of names longer than ``width`` stay before the cut.

    Names start alike, and their ends differ: both are kept. Where this leaves some equal, another
    place of the cut may keep them apart.
    """
    middle = (width - 1) // 2
    for head in (middle, 4, width - 4):
        if len({cut_name(name, width, head) for name in names}) == len(names):
            return head
    return middle


def cut_name(name: str, width: int, head: int | None = None) -> str:
    """A name in ``width`` characters, of which ``head`` stay before the cut (default: a third)."""
    if len(name) <= width:
        return name
    head = (width - 1) // 3 if head is None else head
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def fit_cell(text: str, width: int, right: bool) -> str:
    """A text in a cell of ``width`` characters. At the right it is cut to its end: of a curve and a
    number, the number."""
    if right:
        return text[-width:].lstrip().rjust(width)
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def _overwrite(text: str) -> str:
    """Resolve carriage returns: a later part overwrites the start of the earlier one."""
    shown = ""
    for part in text.split("\r"):
        if ERASE_LINE.search(part):
            shown = ""
        part = ESCAPES.sub("", part)
        shown = part + shown[len(part) :]
    return shown
