"""Hypothesis strategies for regular expressions, and texts in which they match."""

from __future__ import annotations

import re

from hypothesis import strategies as st

_PLAIN = ["a", "b", "lo", "st", " ", r"\."]
_SETS = [r"\d", r"\s", r"\w", r"\b", ".", "[ab]", "[^a]", "[]b]", "^", "$", "(a|b)", "(?:lo)", "|"]
_ATOMS = st.sampled_from([*_PLAIN, *_SETS])
_REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "{,2}", "{1,}", "*?", "+?"])


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


PATTERNS = (
    st.lists(st.tuples(_ATOMS, _REPEATS).map("".join), min_size=1, max_size=6)
    .map("".join)
    .filter(_compiles)
)
TEXTS = st.text("ablost .1\n", max_size=60)
