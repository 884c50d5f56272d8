"""JSON in the text of a response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.tool_calls.calls import Json, find_json, parse_json


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("7", 7),
        (" null ", None),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ('Sure:\n```json\n{"a": 1}\n```\nAnything else?', {"a": 1}),
        ('{"a": 1} or rather {"a": 2}, as I said', {"a": 2}),
        ('{not json} {"a": "}"} {', {"a": "}"}),
        ("[1, [2, 3]]", [1, [2, 3]]),
    ],
)
def test_the_last_json_of_a_response_is_found(response: str, value: object) -> None:
    assert find_json(response) == Json(value)


@pytest.mark.parametrize("response", ["", "plain words", "[1, 2", "{'a': 1}", '"half'])
def test_a_response_may_hold_none(response: str) -> None:
    assert find_json(response) is None


@pytest.mark.parametrize(
    "text",
    ["NaN", "-Infinity", "1e999", "9" * 5000, '{"a": 1, "a": 2}', "[" * 51 + "]" * 51, "1 2"],
    ids=lambda text: text[:12],
)
def test_what_json_leaves_open_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any reason will do
        parse_json(text)


@pytest.mark.parametrize(
    "response",
    ["[" * 100_000, "[1," * 50_000, '{"a":' * 50_000, '["' * 50_000, "```\n[" * 20_000],
    ids=lambda response: response[:6],
)
def test_huge_responses_without_json_are_left_soon(response: str) -> None:
    assert find_json(response) is None


@given(st.text(alphabet='{}[]",:\\ud8e0123nul`\n\x1b', max_size=300))
def test_no_response_raises(response: str) -> None:
    find_json(response)
