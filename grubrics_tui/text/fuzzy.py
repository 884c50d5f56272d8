"""Find names by some of their letters."""

from __future__ import annotations

import re
from collections.abc import Iterable

_STARTS = re.compile(r"(?<![A-Za-z0-9])")


def ranked(query: str, names: Iterable[str]) -> list[str]:
    """Return the names that match every word of ``query``, best first; all for an empty query.

    A word matches as it is, best at the start of a part of the name, or with other letters between
    its letters. Lower case matches both cases.
    """
    words = query.split()
    scored = [(score, name) for name in names if (score := _score(words, name)) is not None]
    return [name for _, name in sorted(scored, key=lambda pair: pair[0])]


def _score(words: list[str], name: str) -> tuple[int, int, str] | None:
    """Return a key to sort by: how scattered the letters are, then the length of the name."""
    total = 0
    for word in words:
        exact = name if word != word.lower() else name.lower()
        cost = _cost(word, exact)
        if cost is None:
            return None
        total += cost
    return total, len(name) if words else 0, name


def _cost(word: str, text: str) -> int | None:
    """Return 0 at the start of a part, 1 inside one, 2 or more for scattered letters."""
    index = text.find(word)
    if index >= 0:
        starts = (match.start() for match in _STARTS.finditer(text))
        return 0 if any(text.startswith(word, start) for start in starts) else 1
    first = position = text.find(word[0])
    for letter in word[1:]:
        if position < 0:
            return None
        position = text.find(letter, position + 1)
    return None if position < 0 else 2 + position - first - len(word) + 1
