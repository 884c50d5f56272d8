"""A reward function of one's own may return a number, or a mapping that tells more."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from engine.reward.scoring import custom_score
from engine.run.history.reward_records import RewardRecord


def scored(result: Any) -> tuple[RewardRecord, dict[str, float]]:
    def compute_score(**_: Any) -> Any:
        return result

    given: dict[str, Any] = {"data_source": "mine", "ground_truth": "4", "extra_info": {"index": 7}}
    return asyncio.run(custom_score(compute_score, "text", **given))


def test_a_number_is_the_reward_of_the_row() -> None:
    score, numbers = scored(0.5)
    assert (score.reward, score.question_id, numbers) == (0.5, "7", {})


def test_of_a_mapping_the_numbers_are_kept_and_texts_are_no_error() -> None:
    score, numbers = scored({"score": 1, "acc": True, "pred": "four", "tries": [1, 2]})
    assert (score.error, score.reward) == (None, 1.0)
    assert numbers == {"score": 1.0, "acc": 1.0}


def test_a_component_missing_in_one_rollout_keeps_its_name() -> None:
    assert math.isnan(scored({"score": 0.0, "acc": None})[1]["acc"])


@pytest.mark.row("H20")
@pytest.mark.parametrize("result", [math.nan, {"score": math.inf}, {"acc": 1.0}, None, "good"])
def test_a_result_without_a_finite_score_is_an_error(result: Any) -> None:
    score, _ = scored(result)
    assert score.reward is None
    assert score.error is not None and score.error.kind == "other"
