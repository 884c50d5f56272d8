"""How many judge calls to have in flight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks.estimate.judge import allowed, in_flight, pace


def test_littles_law() -> None:
    assert in_flight(144, 5.0, 60.0) == 12  # 144 x 5 s = 720 s of calls in 60 s


def test_more_than_there_are_calls_helps_nobody() -> None:
    assert in_flight(16, 3.0, 0.1) == 16
    assert in_flight(16, 3.0, 0.0) == 16


def test_what_the_server_refuses_is_not_asked_for() -> None:
    assert in_flight(144, 5.0, 60.0, allowed=7) == 7


@pytest.mark.parametrize(("refused", "served"), [(0.0, 10), (0.25, 7), (0.99, 1), (1.0, 1)])
def test_a_server_serves_what_it_let_through(refused: float, served: int) -> None:
    assert allowed(10, refused) == served


def test_a_step_takes_its_rounds() -> None:
    assert pace(16, 5, 3.0) == 12.0


@given(
    st.integers(1, 10_000),
    st.floats(0.001, 1000, allow_nan=False),
    st.floats(0.01, 10_000, allow_nan=False),
)
def test_so_many_calls_in_flight_keep_the_pace(calls: int, latency: float, seconds: float) -> None:
    enough = in_flight(calls, latency, seconds)
    assert 1 <= enough <= calls
    assert calls * latency / enough <= seconds * 1.000001 or enough == calls
