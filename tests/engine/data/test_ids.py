"""Ids are compared as texts, however a file wrote them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.data.adapters.adapter import id_text


@pytest.mark.parametrize(
    ("value", "name"),
    [("a1", "a1"), (" a ", " a "), (7, "7"), (7.0, "7"), (7.5, "7.5"), (10**20, f"1{'0' * 20}")],
)
def test_an_integer_and_the_equal_float_are_the_same_id(value: Any, name: str) -> None:
    assert id_text(value) == name


@pytest.mark.parametrize("value", [None, "", True, math.nan, math.inf, ["a"], {"id": 1}])
def test_a_value_without_a_name_is_not_an_id(value: Any) -> None:
    assert id_text(value) is None
