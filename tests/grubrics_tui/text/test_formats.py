"""Numbers as text."""

from __future__ import annotations

import pytest

from grubrics_tui.text import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (2.7e-5, "27 µs"), (0.4, "0.4 s"), (12.34, "12.3 s"), (310.2, "310 s")],
)
def test_seconds_are_told_as_everywhere(value: float | None, text: str) -> None:
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (7.4, "0:07"), (247, "4:07"), (3847, "1:04:07")]
)
def test_durations_grow_an_hour_when_they_need_one(value: float | None, text: str) -> None:
    assert formats.duration(value) == text


def test_a_missing_number_is_a_dash_not_a_zero() -> None:
    assert formats.fixed(None) == formats.percent(None) == formats.memory(None) == "–"
    assert formats.fixed(0.0) == "0.000"
