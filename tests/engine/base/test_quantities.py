"""Counts, numbers, sizes and times as text, in one way everywhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.quantities import (
    format_count,
    format_dollars,
    format_duration,
    format_fixed,
    format_number,
    format_percent,
    format_seconds,
    format_size,
)

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
    assert format_seconds(value) == told


@given(st.floats(1e-7, 1e12) | st.floats(-1e12, -1e-7))
def test_a_duration_has_three_digits(value: float) -> None:
    assert read(format_seconds(value)) == pytest.approx(value, rel=5.01e-3)


@given(st.floats(-1e-7, 1e-7, exclude_min=True, exclude_max=True))
def test_a_duration_below_every_unit_is_0_s(value: float) -> None:
    assert format_seconds(value) == "0 s"


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_formatted_durations_keep_their_order(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert read(format_seconds(less)) <= read(format_seconds(more)) * (1 + 1e-9)


@given(st.floats(0, 1e7))
def test_a_formatted_duration_is_short_and_has_no_exponent(value: float) -> None:
    text = format_seconds(value)
    assert len(text) <= 8 and "e" not in text


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_missing_time_is_a_dash(value: float | None) -> None:
    assert format_seconds(value) == "–"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (7.4, "0:07"),
        (247, "4:07"),
        (3847, "1:04:07"),
        (48 * 3600 - 1, "47:59:59"),
        (48 * 3600, "2d 0h"),
        (288 * 3600 + 1, "12d 0h"),
    ],
)
def test_a_duration_of_two_days_and_more_is_shown_in_days(value: float | None, shown: str) -> None:
    assert format_duration(value) == shown


def test_the_noun_is_singular_after_1_only() -> None:
    counts = [format_count(number, "step") for number in (0, 1, 2, 1200)]
    assert counts == ["0 steps", "1 step", "2 steps", "1,200 steps"]
    assert format_count(1, "process", plural="processes") == "1 process"
    assert format_count(3, "process", plural="processes") == "3 processes"


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.41234, 4, "0.4123"),
        (-0.009223, 4, "-0.009223"),
        (1.2e-7, 4, "1.2e-07"),
        (9999.4, 4, "9999"),
        (12345.6, 4, "12,346"),
        (999.5, 3, "1,000"),
        (3e12, 4, "3e+12"),
        (math.nan, 4, "nan"),
        (None, 4, "–"),
    ],
)
def test_a_number_below_a_billion_has_no_exponent(
    value: float | None, digits: int, shown: str
) -> None:
    assert format_number(value, digits) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0.0 MiB"), (10, "1 KiB"), (2048, "2 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")],
)
def test_a_size_is_in_binary_units(size: int, shown: str) -> None:
    assert format_size(size) == shown


def test_cents_are_not_rounded_away() -> None:
    prices = [format_dollars(price) for price in (0, 0.0042, 1.2, 1250)]
    assert prices == ["$0.00", "$0.0042", "$1.20", "$1,250.00"]


def test_a_missing_number_is_a_dash_not_a_zero() -> None:
    assert format_fixed(None) == format_percent(None) == format_size(None) == "–"
    assert format_fixed(0.0) == "0.000"
