"""Scores of tool calls and of answers in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.task import RecordError
from engine.tasks.tool_calls import JSON, TOOL_CALLS
from engine.tasks.tool_calls.score import score_calls, score_json

TOOLS = [
    {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["C", "F"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    {"name": "time", "parameters": {"zone": {"type": "str"}, "hour": {"type": "int, optional"}}},
]
CALLS = [
    {"name": "weather", "arguments": {"city": "Bern", "days": 3}},
    {"name": "time", "arguments": {"zone": "CET"}},
]
CALLS_ROW = TOOL_CALLS.read({"question": "Weather and time?", "tools": TOOLS, "calls": CALLS})

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
PERSON = {"name": "Ada", "age": 36}
JSON_ROW = JSON.read({"question": "Who?", "answer": PERSON, "schema": SCHEMA})

HOSTILE = [
    "",
    "0",
    "True",
    "zzz",
    "null",
    "[]",
    "{}",
    "NaN",
    "9" * 100_000,
    "[" * 1000 + "]" * 1000,
    '{"a":' * 1000 + "1" + "}" * 1000,
    "\x1b[31m{}",
    "<tool_call>",
    '<tool_call>{"name": null}</tool_call>',
    '{"name": "weather", "arguments": "not json"}',
    '{"name": "weather", "arguments": {"city": "\\ud800"}}',
    '{"name": "weather", "arguments": {"city": "Bern", "days": 1e999}}',
    '[{"name": "weather"}, 7]',
    '{"name": "\u0410da", "age": 36}',
    CALLS_ROW.prompt[-1]["content"],
    JSON_ROW.prompt[-1]["content"],
]


def calls(response: str, **options: float) -> dict[str, float]:
    return score_calls("t", response, CALLS_ROW.truth, CALLS_ROW.extra, **options)


def answer(response: str, **options: float) -> dict[str, float]:
    return score_json("t", response, JSON_ROW.truth, JSON_ROW.extra, **options)


def in_tags(*values: Any) -> str:
    return "".join(f"<tool_call>{json.dumps(value)}</tool_call>" for value in values)


@pytest.mark.parametrize(
    "response",
    [
        in_tags(*CALLS),
        in_tags(*reversed(CALLS)),
        json.dumps(CALLS),
        "<think>[]</think>I call:\n```json\n" + json.dumps(CALLS, indent=2) + "\n```",
        json.dumps([{"type": "function", "function": call} for call in CALLS]),
        json.dumps({"tool_calls": [{**c, "arguments": json.dumps(c["arguments"])} for c in CALLS]}),
        TOOL_CALLS.right_answer(CALLS_ROW.truth, CALLS_ROW.extra),
    ],
)
def test_right_calls_score_1_in_every_usual_shape(response: str) -> None:
    assert calls(response) == {"score": 1, "parsed": 1, "valid": 1, "tools": 1, "arguments": 1}


@pytest.mark.parametrize(
    ("response", "scores"),
    [
        (in_tags(CALLS[0]), {"valid": 1, "tools": 1 / 2, "arguments": 1 / 2}),
        (in_tags(*CALLS, CALLS[0]), {"valid": 1, "tools": 2 / 3, "arguments": 2 / 3}),
        (in_tags(CALLS[0], {"name": "now"}), {"valid": 0, "tools": 1 / 2, "arguments": 1 / 2}),
        (
            in_tags({"name": "weather", "arguments": {"city": "Bern", "days": 4}}, CALLS[1]),
            {"valid": 1, "tools": 1, "arguments": 3 / 4},
        ),
        (
            in_tags({"name": "weather", "arguments": {"city": 7}}, CALLS[1]),
            {"valid": 0, "tools": 1, "arguments": 1 / 2},
        ),
    ],
)
def test_the_numbers_beside_the_score_say_what_is_wrong(
    response: str, scores: dict[str, float]
) -> None:
    assert calls(response) == {"score": 0, "parsed": 1, **scores}


def test_a_call_with_a_value_outside_of_its_enum_is_invalid() -> None:
    call = {"name": "weather", "arguments": {"city": "Bern", "unit": "K"}}
    assert calls(in_tags(call))["valid"] == 0


def test_partly_right_calls_can_have_a_part_of_the_score() -> None:
    assert calls(in_tags(CALLS[0]), partial_credit=0.5)["score"] == 1 / 4


def test_of_equal_calls_each_is_counted_once() -> None:
    row = TOOL_CALLS.read({"question": "?", "tools": TOOLS, "calls": [CALLS[1], CALLS[1]]})
    assert score_calls("t", in_tags(CALLS[1]), row.truth, row.extra)["tools"] == 1 / 2


def test_where_no_tool_fits_an_empty_list_is_right_and_silence_is_not() -> None:
    row = TOOL_CALLS.read({"question": "Hello", "tools": TOOLS, "calls": []})
    assert score_calls("t", "[]", row.truth, row.extra)["score"] == 1
    assert score_calls("t", "Hello!", row.truth, row.extra)["score"] == 0
    assert score_calls("t", in_tags(CALLS[0]), row.truth, row.extra)["score"] == 0


@pytest.mark.parametrize(
    ("response", "scores"),
    [
        ('{"age": 36, "name": "Ada"}', {"score": 1, "valid": 1, "fields": 1}),
        ('{"age": 36.0, "name": "Ada"}', {"score": 1, "valid": 1, "fields": 1}),
        ('{"age": 37, "name": "Ada"}', {"score": 0, "valid": 1, "fields": 1 / 2}),
        ('{"name": "Ada"}', {"score": 0, "valid": 0, "fields": 1 / 2}),
        ('{"age": "36", "name": "Ada"}', {"score": 0, "valid": 0, "fields": 1 / 2}),
    ],
)
def test_json_must_have_every_field_right(response: str, scores: dict[str, float]) -> None:
    assert answer(response) == {"parsed": 1, **scores}


def test_partly_right_json_can_have_a_part_of_the_score() -> None:
    assert answer('{"age": 1, "name": "Ada"}', partial_credit=0.5)["score"] == 1 / 4


@pytest.mark.parametrize("response", HOSTILE, ids=lambda response: repr(response[:24]))
def test_hostile_answers_score_0(response: str) -> None:
    assert calls(response)["score"] == 0
    assert answer(response)["score"] == 0


@given(st.text(alphabet='{}[]",: \\u<>/_totalcdenamrgus017.', max_size=200))
def test_no_answer_raises(response: str) -> None:
    calls(response)
    answer(response)
    calls(f'<tool_call>{{"name": "weather", "arguments": {response}}}</tool_call>')


@pytest.mark.row("H23")
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"answer": "{"}, "the answer is not JSON"),
        ({"answer": float("nan")}, "the answer is not JSON"),
        ({"schema": {"type": "objekt"}}, "the schema is none"),
        ({"answer": {"name": "Ada"}}, "the answer does not fit the schema: .*'age' is a required"),
        ({"question": " "}, "the question is not text"),
    ],
)
def test_a_record_of_json_is_checked(values: dict[str, Any], problem: str) -> None:
    record = {"question": "Who?", "answer": PERSON, "schema": SCHEMA, **values}
    with pytest.raises(RecordError, match=problem):
        JSON.read(record)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"tools": [{}]}, "a tool has no name"),
        ({"tools": TOOLS * 2}, "two tools are called 'weather'"),
        ({"tools": [{"name": "x", "parameters": 7}]}, "parameters of the tool 'x'"),
        ({"calls": [{"name": "now"}]}, "a call of 'now' does not fit the tools"),
        ({"calls": "weather()"}, "the calls is not JSON"),
        ({"calls": [7]}, "a call is an object with a name"),
    ],
)
def test_a_record_of_tool_calls_is_checked(values: dict[str, Any], problem: str) -> None:
    record = {"question": "?", "tools": TOOLS, "calls": CALLS, **values}
    with pytest.raises(RecordError, match=problem):
        TOOL_CALLS.read(record)


def test_tools_and_calls_may_be_texts_as_in_many_data_sets() -> None:
    row = TOOL_CALLS.read({"question": "?", "tools": json.dumps(TOOLS), "calls": json.dumps(CALLS)})
    assert row.truth == CALLS_ROW.truth


@pytest.mark.parametrize("text", ["two or three", "3", "[3]", "null"])
def test_a_truth_that_is_no_call_is_a_wrong_answer(text: str) -> None:
    assert calls(TOOL_CALLS.right_answer(text, CALLS_ROW.extra))["score"] == 0


def test_a_schema_downloads_nothing() -> None:
    record = {"question": "?", "answer": 1, "schema": {"$ref": "http://127.0.0.1:1/schema"}}
    with pytest.raises(RecordError, match="ref 'http"):
        JSON.read(record)
