"""The stand-in judge: repeatable, and sensitive to what a rubric names."""

from __future__ import annotations

import asyncio

import pytest

from engine.reward.judge.offline import OfflineKeywordJudge, answer_score
from engine.tasks.rubrics import parse_rubric

ANSWER = "Rest in a quiet room and call an ambulance when the fever lasts."


def score(rubric: str) -> float:
    return answer_score(ANSWER, parse_rubric(rubric))


@pytest.mark.parametrize(
    ("rubric", "expected"),
    [
        ("Points: 4, Item: Suggests rest in a quiet room", 1.0),
        ("Points: 4, Item: Explains folic acid", 0.0),
        ("Points: 4, Item: Suggests rest\nPoints: 6, Item: Explains folic acid", 0.4),
        ("Points: 4, Item: Mentions fever tablets", 0.5),
        ("Points: 5, Item: Suggests rest\nPoints: -2, Item: Calls an ambulance", 0.6),
        ("Points: 1, Item: Suggests rest\nPoints: -9, Item: Calls an ambulance", 0.0),
        ("Points: -2, Item: Calls an ambulance", 0.0),
        ("no items at all", 0.0),
    ],
)
def test_points_of_the_items_an_answer_meets(rubric: str, expected: float) -> None:
    assert score(rubric) == pytest.approx(expected)


def test_word_endings_do_not_matter() -> None:
    assert score("Points: 1, Item: Resting in quiet rooms") == 1.0


def test_scores_come_in_answer_order_and_repeat_exactly() -> None:
    def once() -> tuple[float, ...] | None:
        judge = OfflineKeywordJudge()
        call = judge.evaluate_answers_batched("?", ["no", ANSWER], "Points: 1, Item: quiet rest")
        return asyncio.run(call).scores

    assert once() == once() == (0.0, 1.0)
