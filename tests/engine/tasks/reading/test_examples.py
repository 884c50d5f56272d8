"""How a record becomes a question about a text, and that its right answer gets the full score."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.tasks.reading import READING, UNANSWERABLE, compute_score
from engine.tasks.task import Example, RecordError


def read(**record: Any) -> Example:
    return READING.read({"question": "What is old?", **record})


@pytest.mark.parametrize(
    ("answers", "accepted"),
    [
        ("the bridge", ["the bridge"]),
        (["the bridge", "bridge", "bridge "], ["the bridge", "bridge"]),
        ({"text": ["bridge"], "answer_start": [4]}, ["bridge"]),
        ({"text": [], "answer_start": []}, [UNANSWERABLE]),
        ("The", ["The"]),
    ],
)
def test_all_accepted_answers_are_kept_once(answers: Any, accepted: list[str]) -> None:
    example = read(answers=answers)
    assert (example.truth, json.loads(example.extra["accepted"])) == (accepted[0], accepted)
    response = READING.right_answer(example.truth, example.extra)
    assert compute_score("", response, example.truth, example.extra)["score"] == 1


def test_the_question_stands_after_the_text() -> None:
    [message] = read(context=["One.", "Two."], answers="One").prompt
    assert message["content"].startswith("One.\n\nTwo.\n\nWhat is old?\n\nAnswer with a few words")


def test_prompts_say_that_there_may_be_no_answer_whether_there_is_one_or_not() -> None:
    some, none = read(answers={"text": ["a bridge"]}), read(answers={"text": []})
    assert some.prompt == none.prompt
    assert UNANSWERABLE in some.prompt[0]["content"]
    assert UNANSWERABLE not in read(answers="a bridge").prompt[0]["content"]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"answers": []}, "the answer is empty"),
        ({"answers": None}, "the answer is empty"),
        ({"answers": [7]}, "the answer is not text"),
        ({"answers": "a", "context": 7}, "the context is not text"),
        ({"answers": "a", "question": ""}, "the question is empty"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(record: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordError, match=says):
        read(**record)
