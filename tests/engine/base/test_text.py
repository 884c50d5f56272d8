"""Curves and commands as text, in one way everywhere."""

from __future__ import annotations

from engine.base.text import sparkline


def test_the_lowest_value_is_at_the_bottom_and_the_highest_at_the_top() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def test_a_missing_value_and_a_nan_are_blank() -> None:
    assert sparkline([1.0, None, float("nan"), 2.0]) == "▁  █"


def test_equal_values_are_a_flat_line() -> None:
    assert len(set(sparkline([0.2, 0.2, 0.2]))) == 1
