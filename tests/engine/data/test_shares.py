"""Rows from several files in given shares: exact, even, and the same in every process."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data.shares import MixedOrder, spread

SHARES = st.lists(st.integers(1, 100), min_size=1, max_size=6)


@pytest.mark.row("A11")
@given(SHARES, st.integers(1, 300))
@settings(max_examples=60)
def test_of_every_beginning_each_file_has_its_share_to_within_one_row(
    weights: list[int], count: int
) -> None:
    shares = [weight / sum(weights) for weight in weights]
    taken = Counter(islice(spread(shares), count))
    assert all(abs(taken[file] - share * count) < 1 for file, share in enumerate(shares))


@pytest.mark.row("A11")
@pytest.mark.parametrize("batch", [4, 5, 8])
def test_three_domains_have_their_shares_within_a_percent_after_fifty_steps(batch: int) -> None:
    shares = {"math": 0.4, "qa": 0.3, "code": 0.3}
    order = MixedOrder(rows=(829, 621, 621), shares=tuple(shares.values()), seed=3)
    taken = Counter(order[position][0] for position in range(50 * batch))
    for file, share in enumerate(shares.values()):
        assert taken[file] / (50 * batch) == pytest.approx(share, abs=0.01)


def test_a_file_with_a_large_share_is_passed_through_again_in_another_order() -> None:
    order = MixedOrder(rows=(3, 9), shares=(1, 1), seed=5)
    small = [row for file, row in (order[position] for position in range(24)) if file == 0]
    passes = [small[start : start + 3] for start in range(0, 12, 3)]
    assert all(sorted(rows) == [0, 1, 2] for rows in passes)
    assert len({tuple(rows) for rows in passes}) > 1


def test_every_row_of_a_file_comes_before_one_comes_again_over_all_epochs() -> None:
    order = MixedOrder(rows=(40, 4), shares=(1, 3), seed=0)
    large = [row for file, row in (order[position] for position in range(160)) if file == 0]
    assert sorted(large) == list(range(40))


def test_shares_hold_in_every_window_of_steps_also_after_many_epochs() -> None:
    order = MixedOrder(rows=(50, 30, 20), shares=(0.4, 0.3, 0.3), seed=1)
    for start in (0, 470, 9_990):
        taken = Counter(order[position][0] for position in range(start, start + 100))
        assert all(abs(taken[file] - 100 * order.shares[file]) <= 2 for file in range(3))


def test_the_order_follows_from_the_seed_alone() -> None:
    def rows(seed: int) -> list[tuple[int, int]]:
        order = MixedOrder(rows=(7, 5), shares=(2, 1), seed=seed)
        return [order[position] for position in range(60)]

    assert rows(3) == rows(3) != rows(4)


def test_a_file_with_share_0_is_left_out() -> None:
    order = MixedOrder(rows=(0, 4), shares=(0, 1), seed=1)
    assert {order[position][0] for position in range(8)} == {1}


@pytest.mark.parametrize(
    ("rows", "shares"), [((3,), (1, 1)), ((3, 3), (0, 0)), ((0, 3), (1, 1))]
)  # fmt: skip
def test_impossible_shares_are_refused(rows: tuple[int, ...], shares: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="share"):
        MixedOrder(rows, shares, 1)
