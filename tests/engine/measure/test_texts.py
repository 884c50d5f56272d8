"""Baselines that no model wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.measure.baselines import baseline_text
from engine.measure.items import Item
from engine.measure.targets import Target
from engine.tasks.rubrics import has_wanted_sum, parse_rubric

GOLDEN, RANDOM = Target("golden", "golden", "", "x"), Target("random", "random", "", "x")


def item(uid: str, golden: str | None = None) -> Item:
    return Item(uid, (), {"extra_info": {"golden_rubric": golden}}, "", "")


def test_golden_is_the_rubric_of_the_data_file() -> None:
    assert (
        baseline_text(GOLDEN, item("q", "Points: 10, Item: Right"), 1) == "Points: 10, Item: Right"
    )


@pytest.mark.parametrize("golden", [None, ""])
def test_an_item_without_a_golden_rubric_has_no_golden_answer(golden: str | None) -> None:
    assert baseline_text(GOLDEN, item("q", golden), 1) is None


@given(uid=st.text(max_size=20), seed=st.integers(min_value=0, max_value=1000))
def test_a_random_rubric_is_valid_and_repeatable(uid: str, seed: int) -> None:
    text = baseline_text(RANDOM, item(uid), seed)
    assert text is not None
    items = parse_rubric(text)
    assert 5 <= len(items) <= 8
    assert all(part.points > 0 for part in items)
    assert has_wanted_sum(text)
    assert text == baseline_text(RANDOM, item(uid), seed)
