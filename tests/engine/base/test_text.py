"""Counts, times and curves as text, in one way everywhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.text import count_of, duration, seconds, sparkline

UNITS = {"h": 3600.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6}


def read(told: str) -> float:
    """Back to seconds."""
    number, unit = told.split(" ")
    return float(number.replace(",", "")) * UNITS[unit]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 s"),
        (2.724e-5, "27.2 µs"),
        (9.996e-5, "100 µs"),
        (1.09e-4, "0.109 ms"),
        (0.0123, "12.3 ms"),
        (0.09996, "100 ms"),
        (0.1, "0.1 s"),
        (6.4, "6.4 s"),
        (31.72, "31.7 s"),
        (99.96, "100 s"),
        (1234.4, "1,234 s"),
        (9999.4, "9,999 s"),
        (10_000, "2.78 h"),
        (3.6e6, "1,000 h"),
        (-0.25, "-0.25 s"),
    ],
)
def test_three_digits_in_the_unit_that_fits(value: float, told: str) -> None:
    assert seconds(value) == told


@given(st.floats(1e-7, 1e12) | st.floats(-1e12, -1e-7))
def test_a_duration_has_three_digits(value: float) -> None:
    assert read(seconds(value)) == pytest.approx(value, rel=5.01e-3)


@given(st.floats(-1e-7, 1e-7, exclude_min=True, exclude_max=True))
def test_a_duration_below_every_unit_is_0_s(value: float) -> None:
    assert seconds(value) == "0 s"


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_formatted_durations_keep_their_order(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert read(seconds(less)) <= read(seconds(more)) * (1 + 1e-9)


@given(st.floats(0, 1e7))
def test_a_formatted_duration_is_short_and_has_no_exponent(value: float) -> None:
    text = seconds(value)
    assert len(text) <= 8 and "e" not in text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_missing_time_is_a_dash(value: float) -> None:
    assert seconds(value) == "– s"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (247, "4:07"),
        (3847, "1:04:07"),
        (48 * 3600 - 1, "47:59:59"),
        (48 * 3600, "2d 0h"),
        (288 * 3600 + 1, "12d 0h"),
    ],
)
def test_a_duration_of_two_days_and_more_is_shown_in_days(value: float, shown: str) -> None:
    assert duration(value) == shown


def test_the_noun_is_singular_after_1_only() -> None:
    assert [count_of(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert count_of(1, "process", plural="processes") == "1 process"
    assert count_of(3, "process", plural="processes") == "3 processes"


def test_the_lowest_value_is_at_the_bottom_and_the_highest_at_the_top() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def test_a_missing_value_and_a_nan_are_blank() -> None:
    assert sparkline([1.0, None, float("nan"), 2.0]) == "▁  █"


def test_equal_values_are_a_flat_line() -> None:
    assert len(set(sparkline([0.2, 0.2, 0.2]))) == 1
