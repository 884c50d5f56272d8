"""How much of one JSON value another one has right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.tool_calls.score import share_right

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "truth", "share"),
    [
        ({"a": 1, "b": "x"}, {"b": "x", "a": 1.0}, 1),
        ({"a": 1, "b": "x"}, {"a": 1, "b": "y"}, 1 / 2),
        ({"a": 1}, {"a": 1, "b": 2, "c": 3}, 1 / 3),
        ({"a": 1, "extra": 2}, {"a": 1}, 1 / 2),
        ([1, 2], [2, 1], 0),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, 1 / 2),
        ({}, {}, 1),
        ({}, [], 0),
        (True, 1, 0),
        ("3", 3, 0),
        (None, None, 1),
        (" Zu\u0308rich", "Zürich", 1),
        (1000.0005, 1000, 1),
        (0.1 + 0.2, 0.3, 1),
        (1.00001, 1, 0),
    ],
)
def test_the_share_of_right_fields(value: Any, truth: Any, share: float) -> None:
    assert share_right(value, truth, 1e-6) == share


@given(VALUES)
def test_a_value_has_all_of_itself_right(value: Any) -> None:
    assert share_right(value, value, 0) == 1


@given(VALUES, VALUES)
def test_the_share_is_between_0_and_1(value: Any, truth: Any) -> None:
    assert 0 <= share_right(value, truth, 1e-6) <= 1
