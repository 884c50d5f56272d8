"""verl's GRPO advantage, worked out from scores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.history.group_scores import Agreement, Estimator, agreement, out_of_order

scores = st.lists(st.floats(-10, 10).map(lambda value: round(value, 4)), min_size=2, max_size=32)


@given(scores)
def test_the_advantages_of_a_group_sum_to_zero(group: list[float]) -> None:
    for estimator in (Estimator(), Estimator(divides_by_std=False)):
        advantages = estimator.advantages(group)
        assert advantages is not None
        assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)


@given(scores)
def test_a_higher_score_never_has_a_lower_advantage(group: list[float]) -> None:
    advantages = Estimator().advantages(group) or []
    pairs = sorted(zip(group, advantages, strict=True))
    assert [advantage for _, advantage in pairs] == sorted(advantages)


def test_it_is_what_verl_computes() -> None:
    """Values of ``compute_grpo_outcome_advantage`` in verl 0.9.1 for these four rewards."""
    result = Estimator().advantages([1.3, 0.6, -0.3, -0.3])
    assert result == pytest.approx([1.2561, 0.3543, -0.8052, -0.8052], abs=1e-4)


def test_without_the_division_it_is_the_distance_to_the_mean() -> None:
    estimator = Estimator.of(
        {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False}
    )
    assert estimator.advantages([1.0, 0.0]) == [0.5, -0.5]
    assert estimator.formula == "r - mean within the group"


def test_equal_scores_have_no_advantage() -> None:
    assert Estimator().advantages([1.3, 1.3, 1.3]) == [0.0, 0.0, 0.0]


def test_an_answer_alone_in_its_group_keeps_its_score() -> None:
    assert Estimator().advantages([0.5]) == pytest.approx([0.5], abs=1e-5)


def test_other_estimators_are_named_and_not_imitated() -> None:
    estimator = Estimator.of({"algorithm.adv_estimator": "gae"})
    assert estimator.advantages([1.0, 0.0]) is None
    assert estimator.formula == "not computed for algorithm.adv_estimator=gae"


def test_a_dump_without_a_config_uses_verls_default_estimator() -> None:
    assert "assumed" in Estimator.of({}).formula


def test_pairs_are_counted_as_gold_has_them_tied_or_reversed() -> None:
    assert agreement([0.9, 0.5, 0.5, 0.7], [1.0, 0.6, 0.4, 0.0]) == Agreement(3, 1, 2)


def test_the_answers_on_the_wrong_side_of_another_are_named() -> None:
    assert out_of_order([0.9, 0.5, 0.5, 0.7], [1.0, 0.6, 0.4, 0.0]) == {1, 2, 3}


def test_scores_that_are_missing_or_equal_in_gold_say_nothing() -> None:
    assert agreement([0.1, None, 0.3], [0.5, 1.0, 0.5]) is None
    assert agreement((), ()) is None
