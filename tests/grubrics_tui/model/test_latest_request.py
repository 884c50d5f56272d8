"""A thread that reads what is asked for: the last request always gets its answer."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.model.latest_request import LatestRequest


def test_requests_come_out_in_order_until_it_is_closed() -> None:
    wanted: LatestRequest[int] = LatestRequest()
    requests = wanted.requests()
    wanted.ask(1)
    assert next(requests) == 1
    wanted.ask(2)
    assert next(requests) == 2
    wanted.close()
    assert next(requests, None) is None


def test_a_newer_request_overtakes_the_older_ones() -> None:
    wanted: LatestRequest[int] = LatestRequest()
    requests = wanted.requests()
    wanted.ask(1)
    next(requests)
    assert not wanted.is_stale()
    wanted.ask(2)
    wanted.ask(3)
    assert wanted.is_stale()
    assert next(requests) == 3


def test_asking_again_for_what_is_being_done_does_not_start_it_anew() -> None:
    wanted: LatestRequest[int] = LatestRequest()
    requests = wanted.requests()
    wanted.ask(1)
    next(requests)
    wanted.ask(1)
    assert not wanted.is_stale()


def test_what_was_overtaken_is_done_again_when_it_is_asked_for_again() -> None:
    wanted: LatestRequest[int] = LatestRequest()
    requests = wanted.requests()
    wanted.ask(1)
    next(requests)
    wanted.ask(2)
    wanted.ask(1)
    assert wanted.is_stale(), "it may have been given up half-way"
    assert next(requests) == 1


@given(st.lists(st.integers(0, 2), min_size=1))
def test_whatever_is_asked_for_in_whatever_order_the_last_one_is_answered(asked: list[int]) -> None:
    wanted: LatestRequest[int] = LatestRequest()
    requests = wanted.requests()
    wanted.ask(0)
    answered = next(requests)
    for request in asked:
        wanted.ask(request)
    if wanted.is_stale():
        answered = next(requests)
    assert answered == asked[-1] and not wanted.is_stale()


def test_a_thread_that_waits_is_woken_by_a_request_and_by_the_end() -> None:
    wanted: LatestRequest[str] = LatestRequest()
    done: list[str] = []
    thread = threading.Thread(target=lambda: done.extend(wanted.requests()))
    thread.start()
    wanted.ask("step 3")
    while not done:
        pass
    wanted.close()
    thread.join(10)
    assert done == ["step 3"] and not thread.is_alive()
