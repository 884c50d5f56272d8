"""What every match of an expression holds, and that looking for it first changes no answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.log_query import Query, required_literal


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"\d+ GiB lost", b" GiB lost"),
        (r"rank \d+ timed out", b" timed out"),
        (r"^loss: [0-9.]+ nan$", b"loss: "),
        (r"colou?r", b"colo"),
        (r"ab+c", b"ab"),
        (r"ab{0,3}c", b"a"),
        (r"3\.14 \(about\)", b"3.14 (about)"),
        (r"a{2}bcd", b"bcd"),
        (r"[]x]yz", b"yz"),
    ],
)
def test_the_longest_run_of_bytes(pattern: str, literal: bytes) -> None:
    assert required_literal(pattern.encode()) == literal


@pytest.mark.parametrize(
    "pattern",
    [
        "error|warning",
        "(abc)def",
        "(?i)abc",
        r"\x41bc",
        r"abc\Z",
        r"(?=abc)",
        r"(a)\1bcd",
        "a{bc}",
        "x[a&&[b]]y",
        "ab\ncd",
    ],
)
def test_nothing_is_said_where_it_is_not_certain(pattern: str) -> None:
    assert required_literal(pattern.encode()) == b""


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
def test_a_search_finds_the_lines_that_hold_a_match(pattern: str, text: str) -> None:
    data = text.encode() + b"\n"
    found, place = [], 0
    for line in data.splitlines(keepends=True):
        if re.search(pattern.encode(), line.rstrip(b"\n"), re.MULTILINE):
            found.append(place)
        place += len(line)
    assert Query((pattern,)).search(data) == found


@given(PATTERNS.filter(compiles), TEXTS)
def test_every_match_holds_the_literal(pattern: str, text: str) -> None:
    for match in re.finditer(pattern.encode(), text.encode(), re.MULTILINE):
        assert required_literal(pattern.encode()) in match[0]
