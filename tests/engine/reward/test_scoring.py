"""From a rubric to a reward, with every failure as data."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from engine.reward.formula import RewardSettings
from engine.reward.judge.interface import JudgeResult
from engine.reward.judge.offline import OfflineKeywordJudge
from engine.reward.scoring import RewardItem, score_rollout
from engine.run.history.reward_records import RewardRecord, ScoringError
from engine.tasks.rubrics import without_thoughts

ITEM = RewardItem(
    "q1",
    "How do I treat a cold?",
    ("Drink water and rest.", "Drink water.", "No idea."),
    (1.0, 0.6, 0.0),
)


class BrokenJudge:
    """A judge whose every call fails."""

    async def evaluate_answers_batched(
        self, question: str, answers: Sequence[str], rubric: str
    ) -> JudgeResult:
        return JudgeResult(None, ScoringError("parse", "not JSON"), None, 0.25, 4)

    async def aclose(self) -> None:
        return None


def scored(rubric: str, item: RewardItem = ITEM, judge: object = None) -> RewardRecord:
    chosen = judge if isinstance(judge, BrokenJudge) else OfflineKeywordJudge()
    return asyncio.run(score_rollout(rubric, item, chosen, RewardSettings()))


def test_a_rubric_that_ranks_like_gold_earns_full_alignment() -> None:
    score = scored("Points: 6, Item: Recommends water\nPoints: 4, Item: Advises rest")
    assert score.numbers["alignment"] == pytest.approx(1.0)
    assert score.judge_scores == (1.0, 0.6, 0.0)


def test_a_rubric_without_items_earns_the_degenerate_reward() -> None:
    assert scored("I like this question.").reward == pytest.approx(-0.3)


def test_an_empty_rubric_needs_no_judge() -> None:
    score = scored("  \n", judge=BrokenJudge())
    assert score.reward == pytest.approx(-0.3)
    assert score.attempts == 0


RUBRIC = "Points: 6, Item: Recommends water\nPoints: 4, Item: Advises rest"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\nPoints: 9, Item: Mentions no idea\n</think>\n\n{RUBRIC}",
        f"Points: 9, Item: Mentions no idea\n</think>\n{RUBRIC}",
        f"<think></think>{RUBRIC}",
    ],
)
def test_thoughts_of_the_model_are_not_part_of_the_rubric(text: str) -> None:
    score = scored(text)
    assert score.rubric == RUBRIC
    assert score.judge_scores == (1.0, 0.6, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "<thinking>\nPoints: 10, Item: no\n</thinking>R",
        "<THINK>no</THINK>R",
        "[THINK]no[/THINK]R",
        "<think>a<think>no</think>b</think>R",
        "<think>no</think>draft<think>no</think>R",
        "R<think>was that right?</think>",
        "R<think>was that",
        "no</thinking>R",
    ],
)
def test_thoughts_are_known_by_any_of_their_marks(text: str) -> None:
    assert without_thoughts(text) == "R"


def test_thoughts_that_never_end_leave_no_rubric() -> None:
    score = scored(f"<think>\n{RUBRIC}", judge=BrokenJudge())
    assert (score.rubric, score.attempts) == ("", 0)
    assert score.reward == pytest.approx(-0.3)


def test_a_failing_judge_gives_no_reward_instead_of_zeros() -> None:
    score = scored("Points: 1, Item: x", judge=BrokenJudge())
    assert score.reward is None
    assert score.judge_scores is None
    assert score.error == ScoringError("parse", "not JSON")
    assert (score.semaphore_wait_s, score.attempts) == (0.25, 4)


def test_a_row_without_gold_is_a_data_error() -> None:
    item = RewardItem.from_extra_info({"question_id": "q7", "question": "?"})
    error = scored("Points: 1, Item: x", item).error
    assert error is not None and error.kind == "data"
    assert "Missing precomputed answers/gold_scores for question 'q7'" in error.message


def test_answers_and_gold_of_different_length_are_a_data_error() -> None:
    error = scored("x", RewardItem("q7", "?", ("a", "b"), (1.0,))).error
    assert error == ScoringError("data", "question 'q7' has 2 answers but 1 gold_scores")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, None])
def test_gold_that_is_not_finite_is_a_data_error(wrong: float | None) -> None:
    extra = {"question_id": "q7", "answers": ["a", "b"], "gold_scores": [1.0, wrong]}
    error = scored("x", RewardItem.from_extra_info(extra)).error
    message = "question 'q7' has gold_scores with null, NaN, infinity or text"
    assert error == ScoringError("data", message)


def test_a_single_answer_has_no_ranking_and_is_a_data_error() -> None:
    error = scored("x", RewardItem("q7", "?", ("a",), (1.0,))).error
    assert error == ScoringError("data", "question 'q7' has fewer than 2 answers to rank")


def test_a_record_holds_everything_a_reader_of_the_log_needs() -> None:
    scoring = scored("Points: 1, Item: Recommends water")
    record = scoring.to_json()
    assert set(record) == {
        "v",
        "t",
        "split",
        "step",
        "group",
        "rollout",
        "pid",
        "question_id",
        "rubric",
        "gold_scores",
        "reward",
        "parts",
        "judge_scores",
        "judge_latency_s",
        "semaphore_wait_s",
        "attempts",
        "failed_attempts",
        "tokens",
        "duration_s",
        "error",
        "n_chars",
    }
    assert scoring.parts is not None and set(scoring.parts) == {
        "alignment",
        "length_penalty",
        "info_value",
        "defense_penalty",
    }
    assert record["n_chars"] == len("Points: 1, Item: Recommends water")
