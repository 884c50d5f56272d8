"""Texts in every match of a regular expression: a quick search before the slow one."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"(?P<text>(?:\\[^0-9A-Za-z]|[^\\\[(){|*+?.^$\n])+)"
    r"|(?P<optional>[*?]|\{\d*,?\d*\})[?+]?|(?P<repeated>\+)[?+]?"
    r"|(?P<group>\((?!\?)|\(\?(?:P<\w+>|:))|(?P<lookaround>\(\?<?[=!])"
    r"|(?P<end>\))|(?P<bar>\|)"
    r"|(?P<unknown>\\[dDwWsSbBAZ]|\[\^?\]?(?:\\.|[^\]\\\[])*\]|[.^$])"
)
"""An element of a pattern. Flags, references and anything else unusual do not match."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_Element = str | tuple[str, ...]
"""A text that is in every match, or texts of which one is; no texts if that is unknown."""


class _UnreadableError(ValueError):
    """The pattern has an element that this reader does not know."""


def required_literals(pattern: str, is_rare: Callable[[str], bool]) -> tuple[str, ...]:
    """Return rare texts of which every match contains at least one.

    Of several choices it is the one whose shortest text is longest. Empty if a match needs no rare
    text, or if the pattern is unknown.
    """
    try:
        alternatives, end = _read_alternatives(pattern, 0, is_rare)
    except _UnreadableError:
        return ()
    return _one_of_each(alternatives, is_rare) if end == len(pattern) else ()


def _read_alternatives(
    pattern: str, position: int, is_rare: Callable[[str], bool]
) -> tuple[list[list[_Element]], int]:
    """The elements of each alternative from ``position`` to the end of the group, and its index."""
    alternatives: list[list[_Element]] = [[]]
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or ((token["optional"] or token["repeated"]) and not alternatives[-1]):
            raise _UnreadableError
        kind, elements = token.lastgroup, alternatives[-1]
        if kind == "end":
            break
        position = token.end()
        if kind == "bar":
            alternatives.append([])
        elif kind == "text":
            elements.append(_ESCAPED.sub(r"\1", token[0]))
        elif kind == "optional":
            text = elements.pop()
            elements += [text[:-1] if isinstance(text, str) else (), ()]
        elif kind in ("group", "lookaround"):
            inner, position = _read_alternatives(pattern, position, is_rare)
            if position == len(pattern):
                raise _UnreadableError
            position += 1
            elements.append(_one_of_each(inner, is_rare) if kind == "group" else ())
        else:
            elements.append(())
    return alternatives, position


def _one_of_each(
    alternatives: list[list[_Element]], is_rare: Callable[[str], bool]
) -> tuple[str, ...]:
    """The rarest texts of every alternative; empty if one has none."""
    literals: list[str] = []
    for elements in alternatives:
        choices = [(item,) if isinstance(item, str) else item for item in elements]
        rare = [texts for texts in choices if any(texts) and all(map(is_rare, texts))]
        if not rare:
            return ()
        literals += max(rare, key=lambda texts: min(map(len, texts)))
    return tuple(dict.fromkeys(literals))
