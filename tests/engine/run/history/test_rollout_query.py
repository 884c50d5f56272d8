"""Sorting and filtering answers."""

from __future__ import annotations

import pytest

from engine.base.errors import UsageError
from engine.run.history.reward_records import RewardRecord, ScoringError
from engine.run.history.rollout_query import Filter, chosen, numbers_of, ordered
from engine.run.history.rollouts import Group, Rollout

LOW = Rollout(0, 0.1, 300, True, -1.0, {"alignment": 0.2, "info_value": 0.5})
HIGH = Rollout(1, 0.9, 200, True, 1.0, {"alignment": 0.9, "info_value": 0.5})
FAILED = Rollout(
    2, None, 100, False, record=RewardRecord(error=ScoringError("timeout", "no answer"))
)
GROUP = Group("g", (LOW, HIGH, FAILED))


@pytest.mark.parametrize(
    ("sort", "rollouts"),
    [
        ("rollout", [0, 1, 2]),
        ("score", [1, 0, 2]),
        ("advantage", [1, 0, 2]),
        ("length", [2, 1, 0]),
        ("error", [2, 0, 1]),
    ],
)
def test_rollouts_without_the_number_are_sorted_last(sort: str, rollouts: list[int]) -> None:
    assert [answer.number for answer in ordered(GROUP.rollouts, sort)] == rollouts


@pytest.mark.parametrize(
    ("text", "rollouts"),
    [
        ("", [0, 1, 2]),
        ("score<0.5", [0]),
        ("score >= .9", [1]),
        ("advantage>-2 length<300", [1]),
        ("alignment<0.5", [0]),
        ("info=0.5", [0, 1]),
        ("error", [2]),
        ("best", [1]),
        ("untrained", [2]),
        ("flat", []),
    ],
)
def test_a_filter_keeps_rollouts_that_meet_all_its_conditions(
    text: str, rollouts: list[int]
) -> None:
    kept = chosen(GROUP, "rollout", Filter.parse(text))
    assert [answer.number for answer in kept] == rollouts


@pytest.mark.parametrize(
    ("text", "told"),
    [("scor<1", "score"), ("eror", "error"), ("score<1.2.3", "not a number"), ("score<", "score")],
)
def test_an_unknown_name_in_a_filter_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Filter.parse(text)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(UsageError, match="score"):
        ordered((), "scores")


CALLING = Rollout(0, 0.1, 30, True, parts={"boxed": 1.0, "turns": 2.0, "calls": 1.0})
SILENT = Rollout(1, 0.1, 30, True, parts={"boxed": 0.0, "turns": 1.0})
UNSCORED = Rollout(2, None, 30, False)
CALLS = Group("g", (CALLING, SILENT, UNSCORED))


@pytest.mark.parametrize(
    ("text", "rollouts"),
    [
        ("boxed<1", [1]),
        ("turns>1", [0]),
        ("calls<1", [1]),
        ("calls_failed=0", [0, 1]),
        ("calls_failed>0", []),
    ],
)
def test_a_filter_compares_the_numbers_of_the_reward_and_of_calls(
    text: str, rollouts: list[int]
) -> None:
    kept = chosen(CALLS, "rollout", Filter.parse(text, numbers_of([CALLS])))
    assert [rollout.number for rollout in kept] == rollouts


def test_without_tools_a_filter_knows_no_calls() -> None:
    with pytest.raises(UsageError, match="unknown field 'calls'"):
        Filter.parse("calls>0", numbers_of([GROUP]))


def test_a_number_that_no_rollout_has_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'boxed'"):
        Filter.parse("boxd<1", numbers_of([CALLS]))
