"""A thread works on the latest request, in rounds that a pause or a request begins."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.model.poller import Pace, Poller
from tests.waiting import PATIENCE_S, wait_for


def test_requests_come_out_in_order_until_the_poller_is_closed() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(1)
    assert next(rounds) == 1
    poller.ask(2)
    assert next(rounds) == 2
    poller.close()
    assert next(rounds, None) is None


def test_a_newer_request_overtakes_the_older_ones() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(1)
    next(rounds)
    assert not poller.is_stale()
    poller.ask(2)
    poller.ask(3)
    assert poller.is_stale()
    assert next(rounds) == 3


def test_asking_again_for_the_current_request_does_not_restart_it() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(1)
    next(rounds)
    poller.ask(1)
    assert not poller.is_stale()


def test_an_overtaken_request_is_repeated_when_it_is_asked_for_again() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(1)
    next(rounds)
    poller.ask(2)
    poller.ask(1)
    assert poller.is_stale(), "it may have been given up half-way"
    assert next(rounds) == 1


@given(st.lists(st.integers(0, 2), min_size=1))
def test_the_last_request_is_always_answered(requests: list[int]) -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(0)
    answered = next(rounds)
    for request in requests:
        poller.ask(request)
    if poller.is_stale():
        answered = next(rounds)
    assert answered == requests[-1] and not poller.is_stale()


def test_after_the_pause_the_same_request_comes_again() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds(Pace(0.0))
    poller.ask(1)
    assert [next(rounds) for _ in range(3)] == [1, 1, 1]
    poller.ask(2, now=False)
    assert next(rounds) == 2


def test_a_request_that_can_wait_begins_the_first_round_but_does_not_end_a_pause() -> None:
    poller: Poller[int] = Poller()
    rounds, begun = poller.rounds(Pace(3600.0)), list[int]()
    poller.ask(1, now=False)
    assert next(rounds) == 1
    thread = threading.Thread(target=lambda: begun.extend(rounds))
    thread.start()
    poller.ask(2, now=False)
    assert poller.is_stale() and begun == []
    poller.wake()
    wait_for(lambda: begun)
    poller.close()
    thread.join(PATIENCE_S)
    assert begun == [2] and not thread.is_alive()


def test_the_pause_follows_from_the_cost_of_the_round() -> None:
    class Record(Pace):
        def pause(self, cost: float) -> float:
            costs.append(cost)
            return self.every

    moments, costs = iter([10.0, 12.5, 20.0, 21.0, 30.0]), list[float]()
    poller: Poller[None] = Poller(lambda: next(moments))
    poller.wake()
    rounds = poller.rounds(Record(0.0))
    for _ in range(3):
        next(rounds)
    assert costs == [2.5, 1.0]


def test_work_may_set_the_next_pause_itself() -> None:
    poller: Poller[int] = Poller()
    rounds = poller.rounds()
    poller.ask(1)
    next(rounds)
    poller.next_in(0.0)
    assert next(rounds) == 1


def test_costly_rounds_pause_longer_and_the_free_ones_do_not_count() -> None:
    pace = Pace(5.0, share=0.02, free=1)
    assert [pace.pause(cost) for cost in (2.0, 0.05, 2.0)] == [5.0, 5.0, 100.0]


def test_closing_ends_a_wait_and_a_rest() -> None:
    poller: Poller[str] = Poller()
    done: list[str] = []

    def work() -> None:
        for request in poller.rounds():
            done.append(request)
            poller.rest(3600.0)

    thread = threading.Thread(target=work)
    thread.start()
    poller.ask("step 3")
    wait_for(lambda: done)
    poller.close()
    thread.join(PATIENCE_S)
    assert done == ["step 3"] and not thread.is_alive()
