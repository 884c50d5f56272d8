"""Numbers in answers, as people and models write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.questions import are_close, find_last_number, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", Fraction(72)),
        ("-0.50", Fraction(-1, 2)),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("3/4", Fraction(3, 4)),
        ("1 1/2", Fraction(3, 2)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-2\dfrac{1}{2}", Fraction(-5, 2)),
        ("2.5e3", Fraction(2500)),
        (r"2 \times 10^{-3}", Fraction(1, 500)),
        ("$1,000", Fraction(1000)),
        (r"50\%", Fraction(50)),
        (r"5\text{ cm}", Fraction(5)),
        ("12 apples", Fraction(12)),
        ("−7", Fraction(-7)),
    ],
)
def test_a_number_is_read_in_its_usual_spellings(text: str, value: Fraction) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "NaN",
        "inf",
        "12 or 13",
        "3 4",
        "1,23",
        "٣",
        "²",
        "1/0",
        "1e9999",
        "2x",
        "x^2",
        r"\sqrt{2}",
        "9" * 201,
    ],
    ids=lambda text: text[:8] or "empty",
)
def test_what_is_not_one_number_has_no_value(text: str) -> None:
    assert parse_number(text) is None


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    parse_number(text)
    find_last_number(text)


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_reads_as_itself(value: Fraction) -> None:
    assert parse_number(f"{value.numerator}/{value.denominator}") == value


def test_the_last_number_of_a_sentence_is_found() -> None:
    assert find_last_number("3 and 4 make 7.") == 7


def test_numbers_are_close_relative_to_the_right_one() -> None:
    assert are_close(Fraction("0.333333"), Fraction(1, 3), 1e-6)
    assert not are_close(Fraction("0.333"), Fraction(1, 3), 1e-6)
    assert are_close(Fraction("1000000.5"), Fraction(1_000_000), 1e-6)
