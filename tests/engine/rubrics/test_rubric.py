"""Rubric text is read generously and written in one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rubrics.rubric import RubricItem, format_rubric, parse_rubric

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
def test_what_is_written_is_read_back_unchanged(rubric: tuple[RubricItem, ...]) -> None:
    assert parse_rubric(format_rubric(rubric)) == rubric


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_rubric(text)
