"""Finding names by typing some of their letters."""

from __future__ import annotations

import re
from collections.abc import Iterable

_STARTS = re.compile(r"(?<![A-Za-z0-9])")


def ranked(query: str, names: Iterable[str]) -> list[str]:
    """The names that match every word of ``query``, best first; all of them for an empty one.

    A word matches where it stands in the name, best at the start of a part of it, else where its
    letters follow each other with others in between. Small letters match both.
    """
    words = query.split()
    found = [(score, name) for name in names if (score := _score(words, name)) is not None]
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def _score(words: list[str], name: str) -> tuple[int, int, str] | None:
    """The lower the better: how scattered the letters are, then the shorter name."""
    total = 0
    for word in words:
        exact = name if word != word.lower() else name.lower()
        cost = _cost(word, exact)
        if cost is None:
            return None
        total += cost
    return total, len(name) if words else 0, name


def _cost(word: str, text: str) -> int | None:
    """0 at the start of a part, 1 inside one, 2 and more for scattered letters."""
    place = text.find(word)
    if place >= 0:
        starts = (match.start() for match in _STARTS.finditer(text))
        return 0 if any(text.startswith(word, start) for start in starts) else 1
    first = position = text.find(word[0])
    for letter in word[1:]:
        if position < 0:
            return None
        position = text.find(letter, position + 1)
    return None if position < 0 else 2 + position - first - len(word) + 1
