"""What a terminal does not show, raw or as an escape of another text: ``\\x1b[1m``, a NUL.

It may stand inside of a secret, which is whole again where the text is read.
"""

from __future__ import annotations

import re

_WRITTEN = r"\\{1,4}"
"""The backslashes of an escape in a text of Python or JSON, which may be quoted once more."""
_ESC = rf"(?:\x1b|{_WRITTEN}(?:x1[bB]|u001[bB]|0?33|e))"
_END_OF_OSC = rf"(?:\x07|\x9c|{_WRITTEN}(?:x07|u0007|a)|{_ESC}{_WRITTEN})"
_UNSEEN = re.compile(
    rf"(?=[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u206f\ufeff\[\\ ])(?:{_ESC}(?:"
    r"\[[0-?]{0,64}[ -/]{0,4}[@-~]"
    rf"|\][^\x07\x1b\x9c\n\\]{{0,2000}}{_END_OF_OSC}"
    r"|[()*+][0-9A-Z])"
    r"|\x1b[ -/]{0,4}[0-~]?"
    r"|\x9b[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|(?:(?<=\S) (?=\[))?\[[0-9;:]{0,40}[mK]"  # Its ESC is lost, or a blank.
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff])"
)
_SIGNS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u206f\ufeff\[\\]")


def has_unseen(text: str) -> bool:
    return _SIGNS.search(text) is not None and _UNSEEN.search(text) is not None


def without_unseen(text: str) -> str:
    """``text`` without colors, links, and signs of no width."""
    return _UNSEEN.sub("", text)
