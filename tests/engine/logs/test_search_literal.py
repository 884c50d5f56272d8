"""A search that first looks for a literal finds the same lines."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from engine.logs.log_query import Query

PLAIN = ["a", "b", "lo", "st", " ", r"\."]
SETS = [r"\d", r"\s", r"\w", r"\b", ".", "[ab]", "[^a]", "[]b]", "^", "$", "(a|b)", "(?:lo)", "|"]
ATOMS = st.sampled_from([*PLAIN, *SETS])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "{,2}", "{1,}", "*?", "+?"])
PATTERNS = st.lists(st.tuples(ATOMS, REPEATS).map("".join), min_size=1, max_size=6).map("".join)
TEXTS = st.text("ablost .1\n", max_size=60)


def compiles(pattern: str) -> bool:
    try:
        re.compile(pattern.encode())
    except re.error:
        return False
    return True


@given(PATTERNS.filter(compiles), TEXTS)
def test_a_search_finds_the_lines_with_a_match(pattern: str, text: str) -> None:
    data = text.encode() + b"\n"
    found, place = [], 0
    for line in data.splitlines(keepends=True):
        if re.search(pattern.encode(), line.rstrip(b"\n"), re.MULTILINE):
            found.append(place)
        place += len(line)
    assert Query((pattern,)).search(data) == found
