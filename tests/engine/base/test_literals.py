"""The texts that every match of a pattern contains."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.literals import required_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"\d+ GiB lost", (" GiB lost",)),
        (r"rank \d+ timed out", (" timed out",)),
        (r"^loss: [0-9.]+ nan$", ("loss: ",)),
        (r"colou?r", ("colo",)),
        (r"ab+c", ("ab",)),
        (r"ab{0,3}c", ("a",)),
        (r"3\.14 \(about\)", ("3.14 (about)",)),
        (r"a{2}bcd", ("bcd",)),
        (r"[]x]yz", ("yz",)),
        ("error|warning", ("error", "warning")),
        ("(abc)de", ("abc",)),
        (r"abc\Z", ("abc",)),
        (r"\w(?:b|cd)+e", ("b", "cd")),
        ("(?=abc)d", ("d",)),
    ],
)
def test_the_rarest_texts(pattern: str, literals: tuple[str, ...]) -> None:
    assert required_literals(pattern, bool) == literals


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)abc",
        r"\x41bc",
        r"(?=abc)",
        "error|",
        "(?:abc)?",
        "(unclosed",
        "unopened)",
        r"(a)\1bcd",
        "a{bc}",
        "x[a&&[b]]y",
        "ab\ncd",
    ],
)
def test_a_pattern_without_certain_texts_has_none(pattern: str) -> None:
    assert required_literals(pattern, bool) == ()


PLAIN = ["a", "b", "lo", "st", " ", r"\."]
SETS = [r"\d", r"\s", r"\w", r"\b", ".", "[ab]", "[^a]", "[]b]", "^", "$", "(a|b)", "(?:lo)", "|"]
ATOMS = st.sampled_from([*PLAIN, *SETS])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "{,2}", "{1,}", "*?", "+?"])
PATTERNS = st.lists(st.tuples(ATOMS, REPEATS).map("".join), min_size=1, max_size=6).map("".join)
TEXTS = st.text("ablost .1\n", max_size=60)


def compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


@given(PATTERNS.filter(compiles), TEXTS)
def test_every_match_contains_a_literal(pattern: str, text: str) -> None:
    literals = required_literals(pattern, bool)
    for match in re.finditer(pattern, text, re.MULTILINE):
        assert not literals or any(literal in match[0] for literal in literals)
