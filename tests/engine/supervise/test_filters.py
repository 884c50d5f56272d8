"""The filter language for runs: what can be typed, and how a mistake is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.supervise.filter_match import RunFilter
from engine.supervise.filters import AllOf, AnyOf, Condition, Not, Tree, Word, parse

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
def test_a_printed_filter_parses_to_what_means_the_same(tree: Tree) -> None:
    again = parse(str(tree))
    assert parse(str(again)) == again


@given(st.text(alphabet=st.sampled_from('ab or"\\()!-:=<>. 1'), max_size=30) | st.text(max_size=30))
def test_any_text_is_a_filter_or_a_mistake_with_its_place(text: str) -> None:
    tree = understood(parse, text)
    if tree is not None:
        assert parse(str(tree)) == tree


@given(
    st.text(max_size=30) | st.sampled_from(["started>1e999d", "took>9e999h", "started:0001-01-01"])
)
def test_any_text_is_a_checked_filter_or_one_line(text: str) -> None:
    understood(RunFilter, text)


@pytest.mark.parametrize("text", ["(" * 5000, "!" * 5000, "(" * 5000 + "a" + ")" * 5000])
def test_deep_nesting_is_a_mistake_like_any_other(text: str) -> None:
    with pytest.raises(UsageError, match="filter, character"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a )", "character 3: '\\)' closes nothing"),
        ("(a", "character 1: '\\(' is not closed"),
        ('a "b', "character 3: the quote is not closed"),
        ("a or", "character 3: 'or' stands between"),
        ("step>", "character 5: 'step>' needs a value"),
        (">3", "character 1: '>' needs a field"),
        ("a !", "character 3: nothing follows"),
        ("a stat:x", "character 3: no field is called 'stat'; did you mean 'state'"),
        ("reward_men>1", "did you mean 'reward_mean'"),
        ("state:faild", "character 7: no state is called 'faild'; try failed"),
        ("step>many", "character 6: 'many' is not a number"),
        ("started>soon", "character 9: 'soon' is not a time such as 2d"),
        ("recipe>3", "character 1: 'recipe' is text"),
    ],
)
def test_a_mistake_names_its_place_and_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        RunFilter(text)
