"""Elapsed time is training time: it stands still between two attempts of a run."""

from __future__ import annotations

import numpy as np

from engine.run.events import Event
from engine.run.history.columns import Clock


def clock(events: list[tuple[str, float]], steps: list[float]) -> Clock:
    made = Clock()
    for number, moment in enumerate(steps, 1):
        made.set(number, moment)
    for kind, moment in events:
        made.note(Event(name=kind, t=moment))
    return made


def elapsed(made: Clock, *moments: float) -> list[float]:
    return made.elapsed(np.array(moments)).tolist()


def test_it_begins_with_the_start_of_the_run_not_with_its_first_step() -> None:
    assert elapsed(clock([("start", 1000)], [1060, 1070]), 1000, 1060, 1070) == [0, 60, 70]


def test_without_a_start_it_begins_with_the_first_step() -> None:
    assert elapsed(clock([], [1060, 1070]), 1060, 1070) == [0, 10]


def test_the_pause_between_two_attempts_does_not_count() -> None:
    resumed = clock([("start", 1000), ("end", 1100), ("start", 5000)], [1050, 1090, 5020])
    assert elapsed(resumed, 1090, 1100, 3000, 5000, 5020) == [90, 100, 100, 100, 120]


def test_an_attempt_without_an_end_event_ends_with_its_last_step() -> None:
    resumed = clock([("start", 1000), ("start", 5000)], [1050, 5020])
    assert elapsed(resumed, 1050, 5020) == [50, 70]


def test_an_attempt_without_a_step_or_an_end_took_no_time() -> None:
    resumed = clock([("start", 1000), ("start", 5000), ("start", 6000)], [5050, 6001])
    assert elapsed(resumed, 5050, 6001) == [50, 51]


def test_other_events_do_not_change_the_attempts() -> None:
    made = clock([("start", 1000), ("warning", 500)], [1010])
    made.note(Event(name="start"))
    assert elapsed(made, 1010) == [10]
