"""A line of reward.jsonl, as it is written and read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.typed import decode_record
from engine.doctor.rewards.rollout_record import read_rollout
from engine.run.conversation import Conversation, Turn
from engine.run.history.reward_records import RewardRecord, ScoringError, Tokens

JUDGED = RewardRecord(
    split="val",
    step=3,
    group="g",
    rollout=1,
    t=7.5,
    pid=12,
    question_id="q",
    rubric="Points: 1, Item: x",
    gold_scores=(1.0, 0.0),
    reward=0.5,
    parts={"alignment": 1.0},
    judge_scores=(0.9, 0.1),
    judge_latency_s=0.2,
    semaphore_wait_s=0.0,
    attempts=2,
    failed_attempts=("timeout",),
    tokens=Tokens(10, 2),
    duration_s=1.5,
    n_chars=18,
    blocked=("x",),
)
OWN = RewardRecord(
    step=1,
    group="g",
    answer="7",
    ground_truth="8",
    error=ScoringError("other", "ValueError: x"),
    n_chars=1,
    conversation=Conversation(turns=(Turn("7", 1, trained=True),), end="answer"),
)


def read(**fields: Any) -> RewardRecord:
    record = decode_record(json.dumps({**JUDGED.to_json(), **fields}).encode(), RewardRecord)
    assert record is not None
    return record


@pytest.mark.parametrize("record", [JUDGED, OWN])
def test_what_is_written_is_read(record: RewardRecord) -> None:
    assert decode_record(json.dumps(record.to_json()).encode(), RewardRecord) == record


def test_the_record_of_a_function_has_no_fields_of_a_judge() -> None:
    assert {"answer", "ground_truth", "reward", "error"} <= OWN.to_json().keys()
    assert not {"rubric", "gold_scores", "tokens", "blocked"} & OWN.to_json().keys()


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", "x"), ("reward", "high"), ("judge_scores", 3), ("tokens", {"input": "x"})],
)
def test_a_damaged_field_counts_as_missing_and_the_others_stay(field: str, value: Any) -> None:
    record = read(**{field: value})
    assert getattr(record, field) is None and record.rubric == JUDGED.rubric


def test_scores_with_a_gap_are_shown_but_not_compared() -> None:
    record = read(judge_scores=[0.5, None, 0.5])
    rollout = read_rollout(record, 0)
    assert record.judge_scores == (0.5, None, 0.5) and record.judge == ()
    assert not rollout.judge_is_constant
    assert "judge [0.5 - 0.5]" in rollout.evidence("reward.jsonl").text
