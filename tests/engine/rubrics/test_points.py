"""Rubrics whose points are scaled ask for the same, and sum to what the prompt says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.judge.offline import answer_score
from engine.rubrics.points import has_wanted_sum, scaled_to_sum
from engine.rubrics.rubric import RubricItem, format_rubric, parse_rubric

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
def test_what_sums_to_10_or_holds_no_points_is_left_alone(text: str) -> None:
    assert scaled_to_sum(text) == text
