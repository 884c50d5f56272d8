"""The time of a call, as the process of the function measures it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.reward.own.child import Scorer, Times
from engine.reward.own.loading import Source
from engine.reward.own.wire import PAGE, Busy, Reply


def compute_score(answer: str) -> float:
    return float(answer)


@pytest.fixture
def busy() -> Iterator[Busy]:
    with tempfile.TemporaryFile() as page:
        page.truncate(PAGE)
        busy = Busy(page.fileno())
        yield busy
        busy.close()


def reply(busy: Busy, answer: str, clock_s: float, queued_s: float = 0.0) -> Reply:
    """The reply to a call that takes so long, with a limit of 10 s."""
    source = Source(__file__, None, "compute_score", {}, (), {})
    times = iter([Times(100.0, 7.0), Times(100.0 + clock_s, 7.0 + queued_s)])
    scorer = Scorer(compute_score, source, busy, 10.0, lambda: next(times))
    return scorer.reply(1, {"answer": answer})


@pytest.mark.parametrize(("clock_s", "outcome"), [(9.9, "ok"), (10.1, "timeout")])
def test_a_result_after_the_limit_is_a_timeout(busy: Busy, clock_s: float, outcome: str) -> None:
    assert reply(busy, "1", clock_s).outcome == outcome


def test_a_late_result_names_the_function(busy: Busy) -> None:
    late = reply(busy, "1", 10.1)
    assert (late.value, str(late.place).partition(":")[0]) == (None, Path(__file__).name)


def test_an_exception_after_the_limit_stays_one(busy: Busy) -> None:
    assert reply(busy, "one", 10.1).outcome == "error"


@pytest.mark.parametrize(("queued_s", "own_s"), [(0.0, 0.21), (0.2, 0.01), (0.3, 0.0)])
def test_waiting_for_a_processor_is_no_time_of_the_call(
    busy: Busy, queued_s: float, own_s: float
) -> None:
    assert reply(busy, "1", 0.21, queued_s).own_s == pytest.approx(own_s)


def test_the_times_of_this_thread_grow() -> None:
    first, second = Times.now(), Times.now()
    assert second.clock_s >= first.clock_s
    assert second.queued_s >= first.queued_s >= 0
