"""Decide ``[ ... ]`` and ``[[ ... ]]``; what only a shell knows, such as files, stays open."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from engine.translate.shell_expansion import Expander
from engine.translate.shell_words import Word

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_EQUAL = ("=", "==", "!=")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")


def decide_test(expander: Expander, words: Sequence[Word]) -> bool | None:
    """``test``, ``[``: the words after its name."""
    with expander.testing():
        items = [item.text for word in words for item in expander.expand(word)]
    if items and items[-1] == "]":
        items.pop()
    return _of_items(expander, items)


def decide_double(expander: Expander, words: Sequence[Word]) -> bool | None:
    """The words of one comparison in ``[[ ... ]]``."""
    with expander.testing():
        items = [expander.text(word.line, word.pieces) for word in words]
    if len(words) == 3 and words[1].text in _EQUAL:
        pattern = expander.pattern(words[2].line, words[2].pieces)
        if pattern is None or expander.holes.reason(items[0]) is not None:
            return None
        return (pattern.fullmatch(items[0]) is not None) == (items[1] != "!=")
    return _of_items(expander, items)


def _of_items(expander: Expander, items: Sequence[str]) -> bool | None:
    """A text, ``-z text``, a comparison, or several of them."""
    for joint, decides in (("-o", True), ("-a", False)):
        if joint in items[1:-1] and len(items) > 3:
            at = items.index(joint, 1)
            sides = [_of_items(expander, side) for side in (items[:at], items[at + 1 :])]
            if decides in sides:
                return decides
            return None if None in sides else not decides
    if items[:1] == ["!"] and len(items) > 1:
        return negated(_of_items(expander, items[1:]))
    if expander.holes.reason("".join(items)) is not None:
        return None
    match items:
        case []:
            return False
        case [text]:
            return bool(text)
        case ["-z" | "-n" as sign, text]:
            return bool(text) == (sign == "-n")
        case [left, sign, right] if sign in _EQUAL:
            return (left == right) == (sign != "!=")
        case [left, sign, right] if sign in _NUMBERS:
            if _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right):
                return _NUMBERS[sign](int(left), int(right))
    return None


def negated(decided: bool | None) -> bool | None:
    return None if decided is None else not decided
