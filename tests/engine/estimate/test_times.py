"""Times in three digits, from a stand-in's microseconds to hours."""

from __future__ import annotations

import pytest

from engine.estimate.times import seconds


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 s"),
        (2.724e-5, "0.0272 ms"),
        (0.0123, "12.3 ms"),
        (0.09996, "100 ms"),
        (0.1, "0.1 s"),
        (6.4, "6.4 s"),
        (31.72, "31.7 s"),
        (99.96, "100 s"),
        (1234.4, "1234 s"),
    ],
)
def test_three_digits_in_the_unit_that_fits(value: float, told: str) -> None:
    assert seconds(value) == told
