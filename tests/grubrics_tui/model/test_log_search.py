"""Which hit is shown first, and what is said of a search that could not end."""

from __future__ import annotations

from engine.logs.log_query import Query
from engine.logs.log_scan import Found, Job
from grubrics_tui.model.log_search import LogSearch


def hunt(origin: int, *, upwards: bool) -> LogSearch:
    query = Query(("x",))
    return LogSearch(query, Job(origin, upwards_first=upwards, query=query))


def piece(start: int, end: int, *hits: int) -> Found:
    return {"from": start, "to": end, "hits": hits}


def test_the_nearest_hit_above_comes_first_while_following() -> None:
    found = hunt(100, upwards=True)
    found.add([piece(50, 100)])
    assert found.first() is None
    found.add([piece(0, 50, 10, 20)])
    assert found.first() == 20


def test_a_hit_on_the_other_side_waits_until_this_side_was_read() -> None:
    found = hunt(60, upwards=True)
    found.add([piece(50, 100, 70)])
    assert found.first() is None
    found.add([piece(0, 50)])
    assert found.first() is None
    found.add([piece(100, 150, 120)])
    assert found.first() == 70


def test_downwards_the_nearest_hit_below_comes_first() -> None:
    found = hunt(60, upwards=False)
    found.add([piece(50, 100, 55)])
    assert found.first() is None
    found.add([piece(100, 150, 120)])
    assert found.first() == 120


def test_a_search_that_died_is_not_running_and_says_so() -> None:
    found = hunt(0, upwards=False)
    found.add([piece(0, 50, 5), {"given_up": True}])
    assert not found.running and found.given_up and found.first() == 5


def test_enough_hits_are_no_failure() -> None:
    found = hunt(0, upwards=False)
    found.add([{"full": 2}, {"given_up": True}])
    assert found.full and not found.running and not found.given_up
