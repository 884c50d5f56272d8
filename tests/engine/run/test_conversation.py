"""The turns and calls of a rollout, as they are written and read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.typed import convert_record, to_json
from engine.run.conversation import OUTCOMES, Call, Conversation, Turn

TURNS = st.builds(Turn, st.text(), st.integers(0, 50), st.booleans())
CALLS = st.builds(
    Call,
    st.integers(1, 9),
    st.text(),
    st.text(),
    st.sampled_from(OUTCOMES),
    st.text(),
    st.floats(0, 60),
)
CONVERSATIONS = st.builds(
    Conversation,
    turns=st.lists(TURNS).map(tuple),
    calls=st.lists(CALLS).map(tuple),
    end=st.sampled_from(["answer", "malformed", "turn_limit", "length"]),
)


@given(CONVERSATIONS)
def test_what_is_written_is_read(conversation: Conversation) -> None:
    assert (
        convert_record(json.loads(json.dumps(to_json(conversation))), Conversation) == conversation
    )


@given(CONVERSATIONS)
def test_every_call_has_one_outcome(conversation: Conversation) -> None:
    numbers = conversation.numbers()
    assert sum(numbers[f"calls_{outcome}"] for outcome in OUTCOMES) == numbers["calls"]


@given(CONVERSATIONS)
def test_the_last_answer_is_among_the_tokens(conversation: Conversation) -> None:
    span = conversation.last_answer()
    assert 0 <= span.start <= span.stop <= sum(turn.tokens for turn in conversation.turns)


def test_the_last_answer_is_before_a_reply_that_nothing_follows() -> None:
    turns = (Turn("call", 5, trained=True), Turn("reply", 3, trained=False))
    assert Conversation(turns=turns, end="length").last_answer() == slice(0, 5)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, {"end": "elsewhere"}])
def test_what_is_no_conversation_is_none(value: Any) -> None:
    assert convert_record(value, Conversation) is None


def test_parts_of_the_wrong_shape_are_left_out() -> None:
    value = {"end": "answer", "turns": [3, {"text": 4, "tokens": "x"}], "calls": {"a": 1}}
    assert convert_record(value, Conversation) == Conversation(end="answer")
