"""Rubric text is read generously and written in one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.reward.judge.offline import answer_score
from engine.tasks.rubrics import (
    RubricItem,
    format_rubric,
    has_wanted_sum,
    parse_rubric,
    scaled_to_sum,
)

ONE = (RubricItem(2.5, "Names the dose"),)


@pytest.mark.parametrize(
    "line",
    [
        "Points: 2.5, Item: Names the dose",
        "points: 2.5, item: Names the dose",
        "- Points: 2.5, Item: Names the dose",
        "* Points: 2.5, Item: Names the dose",
        "3. Points: 2.5, Item: Names the dose",
        "3) Points: +2.5; Item: Names the dose",
        "Points: 2.5 | Item: Names the dose",
        "Points: 2.5 \u2014 Item: Names the dose",
        "Points: 2.5 - Item: Names the dose",
        "**Points:** 2.5, **Item:** Names the dose",
        "Item: Names the dose, Points: 2.5",
        "Points: 2.5\nItem: Names the dose",
        "Points: 2.5, Item: Names\n  the dose",
    ],
)
def test_one_item_in_many_spellings(line: str) -> None:
    assert parse_rubric(line) == ONE


@pytest.mark.parametrize("minus", ["-", "\u2212"])
def test_negative_points_are_kept(minus: str) -> None:
    assert parse_rubric(f"Points: {minus}3, Item: Invents a drug") == (
        RubricItem(-3.0, "Invents a drug"),
    )


def test_sub_bullets_belong_to_their_item() -> None:
    text = "Points: 2, Item: Derives the rate\n  **(0.5pts)** states the law\n\nunrelated prose"
    assert parse_rubric(text) == (RubricItem(2.0, "Derives the rate **(0.5pts)** states the law"),)


def test_prose_and_items_without_text_are_left_out() -> None:
    text = "Here is my rubric.\n\nPoints: 10.0\n\nPoints: 4, Item:\n\nPoints: 1, Item: Cites it"
    assert parse_rubric(text) == (RubricItem(1.0, "Cites it"),)


@pytest.mark.parametrize("text", ["", "   \n\n", "no rubric here", "Points: many, Item: x"])
def test_text_without_items_gives_none(text: str) -> None:
    assert parse_rubric(text) == ()


words = st.text(
    alphabet=st.characters(whitelist_categories=("L", "N", "P", "S")), min_size=1, max_size=8
)
criteria = st.lists(words, min_size=1, max_size=6).map(" ".join)
points = st.integers(-1000, 1000).map(lambda hundredths: hundredths / 100)
items = st.lists(st.builds(RubricItem, points, criteria), max_size=8).map(tuple)


@given(items)
def test_a_formatted_rubric_parses_back_unchanged(rubric: tuple[RubricItem, ...]) -> None:
    assert parse_rubric(format_rubric(rubric)) == rubric


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_rubric(text)


WORDS = ["water", "rest", "doctor", "glucose", "sleep"]


@given(st.lists(st.integers(-10, 10).filter(bool), min_size=1, max_size=5))
def test_the_sum_is_10_or_the_rubric_cannot_be_scaled(points: list[int]) -> None:
    text = format_rubric(map(RubricItem, map(float, points), WORDS))
    scaled = scaled_to_sum(text)
    if sum(points) <= 0:
        assert scaled is None
        return
    assert scaled is not None and has_wanted_sum(scaled)
    items = parse_rubric(scaled)
    assert [item.criterion for item in items] == WORDS[: len(points)]
    assert [item.points > 0 for item in items] == [point > 0 for point in points]


def test_scores_by_a_scaled_rubric_are_the_same() -> None:
    text = "Points: 10, Item: water\nPoints: 8, Item: rest\nPoints: -6, Item: glucose"
    scaled = scaled_to_sum(text)
    assert scaled is not None
    for answer in ("water", "rest", "water and glucose", "sleep"):
        before, after = (answer_score(answer, parse_rubric(each)) for each in (text, scaled))
        assert after == pytest.approx(before, abs=0.01)


@pytest.mark.parametrize("text", ["Points: 4, Item: a\n  (1) sub\nPoints: 6, Item: b", "prose"])
def test_points_that_sum_to_10_are_not_scaled_nor_is_a_text_without_points(text: str) -> None:
    assert scaled_to_sum(text) == text
