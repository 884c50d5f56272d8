"""Replies of judge models are read generously, but a missing score is never a zero."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.reward.judge.wire import ReplyError, judge_messages, read_scores

FIRST = '{"answer_id": "a1", "total_score": 0.9}'
SECOND = '{"answer_id": "a2", "total_score": 0.2}'
REPLY = f'{{"evaluations": [{FIRST}, {SECOND}]}}'


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        f"```json\n{REPLY}\n```",
        f"```\n{REPLY}\n```",
        f"Here you are: {REPLY} Anything else?",
        REPLY[:-1],
        REPLY[:-2],
        REPLY[:-2] + ', {"answer_id": "a3", "total_sc',
        '[{"answer_id": "a2", "total_score": "0.2"}, {"answer_id": "A1", "total_score": 0.9}]',
        REPLY.replace('"answer_id"', '"why": "line 1\nline 2", "answer_id"'),
        REPLY.replace('"answer_id"', '"why": "it ends its </think> early", "answer_id"'),
        REPLY.replace('"answer_id"', '"why": "says <think> aloud", "answer_id"', 1),
    ],
)
def test_scores_are_found_in(reply: str) -> None:
    assert read_scores(reply, 2) == (0.9, 0.2)


DRAFT = REPLY.replace("0.9", "0.5")


@pytest.mark.parametrize(
    "before",
    [
        "[Note] The rubric has {two} items.\n",
        "Answer [a1] is right; see [1], [2] and {this}.\n",
        'Rubric: {"points": 5, "items": ["x", "y"]}\n',
        "<think>{maybe [not]}</think>",
        f"<think>{DRAFT}</think>\n",
        f"I begin with {DRAFT}, hm </think>",
        f"The format is {DRAFT}\nMy grades:\n",
        f"```json\n{DRAFT}\n```\nCorrected:\n```json\n",
        "[[[[ {{{{ ",
    ],
)
def test_what_stands_before_the_scores_does_not_hide_them(before: str) -> None:
    assert read_scores(before + REPLY, 2) == (0.9, 0.2)
    assert read_scores(before + REPLY[:-2], 2) == (0.9, 0.2)


@pytest.mark.parametrize("after", [" [end]", " {}", "\n[1] see the rubric", ' {"note": "done"}'])
def test_what_stands_behind_the_scores_does_not_hide_them(after: str) -> None:
    assert read_scores(REPLY + after, 2) == (0.9, 0.2)


@pytest.mark.parametrize("reply", [f"<think>{REPLY}", f"<think>{REPLY}</think>", "<think>"])
def test_thoughts_alone_are_no_scores(reply: str) -> None:
    with pytest.raises(ReplyError, match="no evaluations"):
        read_scores(reply, 2)


def test_scores_a_little_off_the_scale_are_kept_between_0_and_1() -> None:
    assert read_scores(REPLY.replace("0.9", "1.0005").replace("0.2", "-0.4"), 2) == (1.0, 0.0)


@pytest.mark.parametrize(("first", "second"), [("90", "20"), ("7", "1"), ("0.9", "-3"), ("5", "5")])
def test_scores_on_another_scale_are_refused_with_the_scores(first: str, second: str) -> None:
    reply = REPLY.replace("0.9", first).replace("0.2", second)
    with pytest.raises(ReplyError, match=f"another scale than 0 to 1: {first}, {second}"):
        read_scores(reply, 2)


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("", "no evaluations"),
        ("I cannot grade this.", "no evaluations"),
        ("{}", "no evaluations"),
        ('{"evaluations": []}', "no evaluations"),
        (REPLY[:60], "no score for a2"),
        ('{"evaluations": [{"answer_id": "a1", "total_score": 1}]}', "no score for a2"),
        (REPLY.replace("0.2", "null"), "no score for a2"),
        (REPLY.replace("0.2", "true"), "no score for a2"),
        (REPLY.replace("0.2", "NaN"), "no score for a2"),
        (REPLY.replace("0.2", '"high"'), "no score for a2"),
    ],
)
def test_a_reply_without_every_score_is_refused(reply: str, complaint: str) -> None:
    with pytest.raises(ReplyError, match=complaint):
        read_scores(reply, 2)


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, '"1_0"'])
def test_a_number_that_is_none_of_this_world_is_no_score(number: str) -> None:
    with pytest.raises(ReplyError, match="no score for a1"):
        read_scores(REPLY.replace("0.9", number), 2)


def test_the_request_holds_question_answers_and_rubric() -> None:
    text = judge_messages("Why?", ["one", "two"], "Points: 1, Item: x")[1]["content"]
    assert text.startswith(
        "Question: Why?\n\n--- Answer a1 ---\none\n\n--- Answer a2 ---\ntwo\n\n"
        "--- Rubric ---\nPoints: 1, Item: x"
    )


SCRAPS = [FIRST, SECOND, REPLY, "{", "}", "[", "]", '"', "\\", ",", ":", "<think>", "</think>"]
SCRAPS += [
    "```json",
    "```",
    "NaN",
    "1e999",
    "-7",
    "9" * 400,
    '"evaluations"',
    "\ud800",
    "\0",
    "[" * 3000,
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(SCRAPS) | st.text(max_size=5)).map("".join)))
@settings(max_examples=300)
def test_any_text_gives_scores_in_0_to_1_or_a_reply_error(text: str) -> None:
    try:
        scores = read_scores(text, 1)
    except ReplyError:
        return
    assert len(scores) == 1 and 0 <= scores[0] <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_every_complete_reply_is_read_exactly(scores: list[float]) -> None:
    entries = [{"answer_id": f"a{i}", "total_score": s} for i, s in enumerate(scores, start=1)]
    assert read_scores(json.dumps({"evaluations": entries}), len(scores)) == tuple(scores)
