"""The texts that every match of a pattern contains."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from engine.base.literals import required_literals
from tests.patterns import PATTERNS, TEXTS


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


@given(PATTERNS, TEXTS)
def test_every_match_contains_a_literal(pattern: str, text: str) -> None:
    literals = required_literals(pattern, bool)
    for match in re.finditer(pattern, text, re.MULTILINE):
        assert not literals or any(literal in match[0] for literal in literals)
