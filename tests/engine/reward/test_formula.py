"""The reward formula, on values checked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.reward.formula import (
    RewardSettings,
    average_ranks,
    reward_parts,
    spearman,
    total_reward,
)

GOLD = [0.92, 0.65, 0.20, 0.35, 0.88, 0.51]


def reward(judge: list[float], gold: list[float], n_chars: int = 0, **weights: float) -> float:
    settings = RewardSettings.model_validate(weights)
    return total_reward(reward_parts(judge, gold, n_chars, settings.char_threshold), settings)


@pytest.mark.parametrize(
    ("case", "judge", "gold", "n_chars", "expected"),
    [
        ("perfect", GOLD, GOLD, 0, 1.2667),
        ("all zero", [0.0] * 6, GOLD, 0, -0.3),
        ("constant", [0.7] * 6, GOLD, 0, -0.3),
        ("inverted", [1 - score for score in GOLD], GOLD, 0, -0.7333),
        ("perfect but 6000 characters", GOLD, GOLD, 6000, 1.1667),
        ("3000 characters cost nothing", GOLD, GOLD, 3000, 1.2667),
        ("perfect ranking, all passed", [0.9, 0.8, 0.7, 0.6], [4, 3, 2, 1], 0, 0.8677),
        ("constant gold leaves the info bonus", GOLD, [0.5] * 6, 0, 0.2667),
        ("one right option of four", [1, 0, 0, 0], [1, 0, 0, 0], 0, 1.225),
    ],
)
def test_known_rewards(
    case: str, judge: list[float], gold: list[float], n_chars: int, expected: float
) -> None:
    assert reward(judge, gold, n_chars) == pytest.approx(expected, abs=5e-5), case


def test_alignment_of_the_guides_example() -> None:
    assert spearman([0.70, 0.80, 0.40, 0.50, 0.75, 0.60], GOLD) == pytest.approx(0.7714, abs=5e-5)


def test_ablation_without_info_value() -> None:
    assert reward(GOLD, GOLD, lambda_info=0.0) == pytest.approx(1.0)


def test_ablation_without_defense_penalty() -> None:
    assert reward([0.0] * 6, GOLD, lambda_defense=0.0) == 0.0


def test_equal_values_share_their_rank() -> None:
    assert average_ranks([5, 1, 5, 9]) == [2.5, 1.0, 2.5, 4.0]


def test_one_answer_always_agrees() -> None:
    assert spearman([0.1], [0.9]) == 1.0


def test_score_lists_of_different_length_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 judge scores for 3 gold scores"):
        reward([0.1, 0.2], [1.0, 2.0, 3.0])


scores = st.floats(0, 1, allow_nan=False)
pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=10)


@given(pairs)
def test_reward_stays_between_its_bounds(pairs: list[tuple[float, float]]) -> None:
    judge, gold = map(list, zip(*pairs, strict=True))
    assert -1.3 - 1e-9 <= reward(judge, gold) <= 1.3 + 1e-9


@given(pairs)
def test_reward_ignores_the_order_of_the_answers(pairs: list[tuple[float, float]]) -> None:
    judge, gold = map(list, zip(*pairs, strict=True))
    assert reward(judge[::-1], gold[::-1]) == pytest.approx(reward(judge, gold))
