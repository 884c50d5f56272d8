"""Names of keys: in the settings file, on the screen and in Textual."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping

from engine.base.errors import nearest

_SIGNS = {
    "escape": "esc", "down": "↓", "up": "↑", "left": "←", "right": "→",
    "shift+left": "shift+←", "shift+right": "shift+→", "ctrl+left": "ctrl+←",
    "ctrl+right": "ctrl+→",
}  # fmt: skip
_SHORTER = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at",
    "hyphen_minus": "minus", "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
_OTHER_NAMES = {"esc": "escape", "return": "enter", "del": "delete", "ins": "insert",
                "pgup": "pageup", "page_up": "pageup", "pgdn": "pagedown",
                "page_down": "pagedown", "dot": "full_stop", "period": "full_stop"}  # fmt: skip
_NAMED = (
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "escape", "tab",
    "space", "backspace", "delete", "insert", *(f"f{number}" for number in range(1, 25)),
)  # fmt: skip
_MODIFIERS = ("ctrl", "shift", "alt", "super")
_PARTS = re.compile(r"((?:[a-z]+\+)*)(.+)", re.IGNORECASE | re.DOTALL)
_LISTED = re.compile(r"\s*((?:[A-Za-z]+\+)*,|[^,\s][^,]*?)\s*(?:,|$)")


def _name_of(sign: str) -> str:
    """Return Textual's name of a punctuation mark."""
    name = unicodedata.name(sign).lower().replace("-", "_").replace(" ", "_")
    return _SHORTER.get(name, name)


_PUNCTUATION: Mapping[str, str] = {sign: _name_of(sign) for sign in string.punctuation}
_BY_NAME = {name: sign for sign, name in _PUNCTUATION.items()}
_BY_SIGN = {sign: name for name, sign in _SIGNS.items()}


def split(keys: str) -> list[str]:
    """Return Textual's names of the keys in a list such as ``j,down``; a comma may be a key."""
    return [_named(word) for word in _LISTED.findall(keys)]


def format_keys(keys: str, *, ascii_only: bool = False) -> str:
    """Return keys in display form: ``question_mark,j`` as ``? j``."""
    return " ".join(_format_key(key, ascii_only) for key in keys.split(","))


def fault(key: str) -> str | None:
    """Return why a name from ``split`` is not a key, with the nearest valid one; else None."""
    modifiers, base = _parts(key)
    if modifiers == ["shift"] and len(base) == 1 and base.isalpha():
        return f"'{key}' is not a valid key; did you mean {base.upper()}?"
    if all(modifier in _MODIFIERS for modifier in modifiers) and _is_known(base):
        return None
    right = [nearest(modifier, _MODIFIERS) or modifier for modifier in modifiers]
    near = base if _is_known(base) else nearest(base, (*_NAMED, *_BY_NAME, *_OTHER_NAMES))
    options = "a letter, a digit, a sign, enter, escape, space, up, f1, ctrl+s, ..."
    hint = f"did you mean {'+'.join([*right, near])}?" if near else f"keys are {options}"
    return f"'{key}' is not a valid key; {hint}"


def _named(word: str) -> str:
    if word in _BY_SIGN:
        return _BY_SIGN[word]
    modifiers, base = _parts(word)
    if len(base) == 1:
        base = _PUNCTUATION.get(base, base.lower() if modifiers else base)
    else:
        base = _OTHER_NAMES.get(base.lower(), base.lower())
    return "+".join([*modifiers, base])


def _parts(key: str) -> tuple[list[str], str]:
    """Split ``ctrl+shift+left`` into its modifiers and the key."""
    match = _PARTS.fullmatch(key)
    before, base = (match[1], match[2]) if match else ("", key)
    return before.lower().split("+")[:-1], base


def _is_known(base: str) -> bool:
    return base in _NAMED or base in _BY_NAME or (len(base) == 1 and base.isprintable())


def _format_key(key: str, ascii_only: bool) -> str:
    modifiers, base = _parts(key)
    sign = _SIGNS.get(key) or "+".join([*modifiers, _BY_NAME.get(base, base)])
    return key if ascii_only and not sign.isascii() else sign
