"""The times of a step of SFT."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.train.sft import StepClock, TimedLoader


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    """Its times are 0, 1, 3, 6, 10, 15, ...: each interval is a second longer."""
    times: Iterator[float] = (n * (n + 1) / 2 for n in range(100))
    monkeypatch.setattr("engine.train.sft.time.perf_counter", lambda: next(times))
    return StepClock()


def test_a_step_is_the_wait_for_its_rows_and_its_update(clock: StepClock) -> None:
    measured = [clock.read(tokens=30, ranks=2) for _ in TimedLoader([1, 2], clock)]
    # The first step has the times 0, 1, 3; the second 6, 10, 15.
    assert [m["timing_s/data"] for m in measured] == [1, 4]
    assert [m["timing_s/update"] for m in measured] == [2, 5]
    assert [m["timing_s/step"] for m in measured] == [3, 9]


def test_the_throughput_is_that_of_one_rank(clock: StepClock) -> None:
    (measured,) = [clock.read(tokens=30, ranks=2) for _ in TimedLoader([1], clock)]
    assert measured["perf/throughput"] == 5


def test_a_loader_has_its_length_and_batches(clock: StepClock) -> None:
    loader = TimedLoader([1, 2], clock)
    assert (len(loader), list(loader), list(loader)) == (2, [1, 2], [1, 2])
