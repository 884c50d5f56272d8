"""Proportions of a mix hold in what is drawn."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.data.presets import mix, shares

POOLS = {"a": [("a", n) for n in range(100)], "b": [("b", n) for n in range(40)]}


def drawn(weights: dict[str, float], total: int | None = None, seed: int = 1) -> Counter[str]:
    return Counter(name for name, _ in mix(POOLS, weights, total, seed))


def test_without_a_total_the_scarcest_pool_decides() -> None:
    assert drawn({"a": 0.5, "b": 0.5}) == {"a": 40, "b": 40}


def test_weights_need_not_sum_to_one() -> None:
    assert drawn({"a": 3, "b": 1}, total=80) == {"a": 60, "b": 20}


def test_rows_are_not_repeated_while_there_are_enough() -> None:
    rows = mix(POOLS, {"a": 1, "b": 1}, None, 1)
    assert len(set(rows)) == len(rows)


def test_a_short_pool_is_drawn_with_replacement() -> None:
    assert drawn({"a": 0.5, "b": 0.5}, total=180) == {"a": 90, "b": 90}


def test_a_pool_of_weight_zero_is_left_out() -> None:
    assert drawn({"a": 1, "b": 0}) == {"a": 100}


def test_the_same_seed_draws_the_same_rows() -> None:
    weights = {"a": 0.5, "b": 0.5}
    assert mix(POOLS, weights, 50, 7) == mix(POOLS, weights, 50, 7)
    assert mix(POOLS, weights, 50, 7) != mix(POOLS, weights, 50, 8)


def test_an_empty_pool_is_an_error() -> None:
    with pytest.raises(UsageError, match="'b' has no usable rows"):
        mix({"a": [1], "b": []}, {"a": 1, "b": 1}, None, 0)


def test_all_weights_zero_is_an_error() -> None:
    with pytest.raises(UsageError, match="more than 0"):
        mix(POOLS, {"a": 0, "b": 0}, None, 0)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 500), min_size=1),
    st.lists(st.floats(0.05, 1), min_size=4, max_size=4),
)
def test_without_a_total_no_pool_is_overdrawn(sizes: dict[str, int], parts: list[float]) -> None:
    weights = dict(zip(sizes, parts, strict=False))
    counts = shares(sizes, weights, None)
    assert all(counts[name] <= sizes[name] for name in sizes)
