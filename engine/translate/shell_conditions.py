"""Decide ``[ ... ]`` and ``[[ ... ]]``; what only a shell knows, such as files, stays open."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from engine.translate.shell_expansion import Expander
from engine.translate.shell_words import Mark, Token, Word

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_EQUAL = ("=", "==")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")


def decide_test(expander: Expander, words: Sequence[Word]) -> bool | None:
    """``test``, ``[``: the words after its name."""
    items = [text for word in words for text in _texts(expander, word, splits=True)]
    if items and items[-1] == "]":
        items.pop()
    return _of_items(expander, items)


def _of_items(expander: Expander, items: Sequence[str]) -> bool | None:
    for sign, combine in (("-o", either), ("-a", both)):
        if sign in items[1:-1] and len(items) > 3:
            at = items.index(sign, 1)
            sides = (items[:at], items[at + 1 :])
            return combine(*(_of_items(expander, side) for side in sides))
    if items[:1] == ["!"] and len(items) > 1:
        return negated(_of_items(expander, items[1:]))
    if not items:
        return False
    if len(items) == 3 and items[1] in (*_EQUAL, "!="):
        left, sign, right = items
        if _is_open(expander, left + right):
            return None
        return (left == right) == (sign in _EQUAL)
    return _of_parts(expander, items)


def _of_parts(expander: Expander, items: Sequence[str]) -> bool | None:
    """A text, ``-z text``, or a comparison of integers."""
    if _is_open(expander, "".join(items)):
        return None
    match items:
        case [text]:
            return bool(text)
        case ["-z" | "-n" as sign, text]:
            return bool(text) == (sign == "-n")
        case [left, sign, right] if sign in _NUMBERS:
            if _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right):
                return _NUMBERS[sign](int(left), int(right))
    return None


def decide_double(expander: Expander, tokens: Sequence[Token]) -> bool | None:
    """The words and marks in ``[[ ... ]]``."""
    waiting = list(tokens)
    decided = _any_of(expander, waiting)
    return None if waiting else decided


def _any_of(expander: Expander, waiting: list[Token]) -> bool | None:
    decided = _all_of(expander, waiting)
    while _takes(waiting, "||"):
        decided = either(decided, _all_of(expander, waiting))
    return decided


def _all_of(expander: Expander, waiting: list[Token]) -> bool | None:
    decided = _one(expander, waiting)
    while _takes(waiting, "&&"):
        decided = both(decided, _one(expander, waiting))
    return decided


def _one(expander: Expander, waiting: list[Token]) -> bool | None:
    if _takes(waiting, "!"):
        return negated(_one(expander, waiting))
    if _takes(waiting, "("):
        decided = _any_of(expander, waiting)
        _takes(waiting, ")")
        return decided
    words: list[Word] = []
    while waiting and isinstance(token := waiting[0], Word):
        words.append(token)
        del waiting[0]
    if len(words) == 3 and words[1].raw in (*_EQUAL, "!="):
        (text,) = _texts(expander, words[0], splits=False)
        pattern = expander.pattern(words[2].line, words[2].pieces)
        if pattern is None or _is_open(expander, text):
            return None
        return (pattern.fullmatch(text) is not None) == (words[1].raw in _EQUAL)
    texts = [text for word in words for text in _texts(expander, word, splits=False)]
    return _of_parts(expander, texts)


def _texts(expander: Expander, word: Word, *, splits: bool) -> list[str]:
    expander.is_test = True
    try:
        if splits:
            return [item.text for item in expander.expand(word)]
        return [expander.text(word.line, word.pieces)]
    finally:
        expander.is_test = False


def _is_open(expander: Expander, text: str) -> bool:
    return expander.holes.reason(text) is not None


def _takes(waiting: list[Token], text: str) -> bool:
    following = waiting[0] if waiting else None
    shown = following.raw if isinstance(following, Word) else None
    shown = following.text if isinstance(following, Mark) else shown
    if shown != text:
        return False
    del waiting[0]
    return True


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return True if left and right else None


def either(left: bool | None, right: bool | None) -> bool | None:
    return negated(both(negated(left), negated(right)))


def negated(decided: bool | None) -> bool | None:
    return None if decided is None else not decided
