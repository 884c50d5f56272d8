"""The filter language: what can be typed, and how a mistake is reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.base.query import AllOf, AnyOf, Condition, Not, Tree, Word, parse

pytestmark = pytest.mark.long

T = TypeVar("T")

words = st.text(min_size=0, max_size=12)
leaves = st.builds(Word, words) | st.builds(
    Condition, words, st.sampled_from([">=", "<=", "!=", ":", "=", ">", "<"]), words
)
trees = st.recursive(
    leaves,
    lambda part: (
        st.builds(Not, part)
        | st.builds(lambda p: AllOf(tuple(p)), st.lists(part, min_size=2, max_size=3))
        | st.builds(lambda p: AnyOf(tuple(p)), st.lists(part, min_size=2, max_size=3))
    ),
    max_leaves=8,
)


def understood(read: Callable[[str], T], text: str) -> T | None:
    """What ``read`` makes of a text; None for a mistake, which has to name its place."""
    place: re.Match[str] | None = None
    try:
        return read(text)
    except UsageError as error:
        place = re.match(r"filter, character (\d+): .", str(error))
    assert place and 1 <= int(place[1]) <= len(text)
    return None


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", AllOf()),
        ("night", Word("night")),
        ("a b", AllOf((Word("a"), Word("b")))),
        ("a or b c", AnyOf((Word("a"), AllOf((Word("b"), Word("c")))))),
        ("(a or b) c", AllOf((AnyOf((Word("a"), Word("b"))), Word("c")))),
        ("!a", Not(Word("a"))),
        ("-a", Not(Word("a"))),
        ("grpo-night", Word("grpo-night")),
        ("step>100", Condition("step", ">", "100")),
        ("step >= 100", Condition("step", ">=", "100")),
        ("lr>-1e-5", Condition("lr", ">", "-1e-5")),
        ("started>2026-01-31T14:00", Condition("started", ">", "2026-01-31T14:00")),
        ('reason:"out of memory"', Condition("reason", ":", "out of memory")),
        (r'"a \"quote\""', Word('a "quote"')),
        ('"or"', Word("or")),
    ],
)
def test_what_is_typed_means(text: str, tree: Tree) -> None:
    assert parse(text) == tree


@given(trees)
def test_a_printed_filter_parses_to_an_equal_filter(tree: Tree) -> None:
    again = parse(str(tree))
    assert parse(str(again)) == again


@given(st.text(alphabet=st.sampled_from('ab or"\\()!-:=<>. 1'), max_size=30) | st.text(max_size=30))
def test_any_text_is_a_filter_or_an_error_with_its_position(text: str) -> None:
    tree = understood(parse, text)
    if tree is not None:
        assert parse(str(tree)) == tree


@pytest.mark.parametrize("text", ["(" * 5000, "!" * 5000, "(" * 5000 + "a" + ")" * 5000])
def test_deep_nesting_is_a_mistake_like_any_other(text: str) -> None:
    with pytest.raises(UsageError, match="filter, character"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("a )", 3),
        ("(a", 1),
        ('a "b', 3),
        ("a or", 3),
        ("step>", 5),
        (">3", 1),
        ("a !", 3),
        ("()", 1),
    ],
)
def test_a_mistake_names_its_character(text: str, character: int) -> None:
    with pytest.raises(UsageError, match=f"filter, character {character}: "):
        parse(text)
