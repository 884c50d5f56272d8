"""Cohen's kappa and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from engine.base.intervals import cohen_kappa, estimate_kappa


def test_the_published_example() -> None:
    """50 proposals, two readers: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no."""
    labels = ["yes"] * 25 + ["no"] * 25
    decisions = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(labels, decisions) == pytest.approx(0.4)


def test_perfect_agreement_is_1() -> None:
    assert cohen_kappa([0, 1, 1], [0, 1, 1]) == 1


def test_one_label_throughout_has_no_kappa() -> None:
    assert cohen_kappa([1, 1], [1, 1]) is None


def test_no_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        cohen_kappa([], [])


def pairs(table: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Labels and decisions with these counts: ``table[label][decision]``."""
    cells = [(x, y) for x, row in enumerate(table) for y, n in enumerate(row) for _ in range(n)]
    return [x for x, _ in cells], [y for _, y in cells]


def kappa_of(shares: np.ndarray) -> float:
    expected = shares.sum(0) @ shares.sum(1)
    return float((np.trace(shares) - expected) / (1 - expected))


@pytest.mark.parametrize(
    "table", [[[20, 5], [10, 15]], [[40, 1], [8, 60]], [[30, 4, 2], [3, 22, 5], [1, 6, 27]]]
)
def test_the_interval_has_the_error_that_the_delta_method_gives(table: list[list[int]]) -> None:
    """The gradient of kappa, taken numerically, through the covariance of a multinomial."""
    counts = np.array(table, dtype=float)
    n, shares = counts.sum(), counts / counts.sum()
    gradient = np.zeros(shares.size)
    for cell in range(shares.size):
        step = np.zeros(shares.size)
        step[cell] = 1e-6
        step = step.reshape(shares.shape)
        gradient[cell] = (kappa_of(shares + step) - kappa_of(shares - step)) / 2e-6
    flat = shares.ravel()
    covariance = np.diag(flat) - np.outer(flat, flat)
    estimate = estimate_kappa(*pairs(table))
    assert estimate is not None
    assert estimate.mean == pytest.approx(kappa_of(shares))
    assert estimate.standard_error == pytest.approx(math.sqrt(gradient @ covariance @ gradient / n))


def test_perfect_agreement_has_no_interval() -> None:
    estimate = estimate_kappa([0, 1, 1], [0, 1, 1])
    assert estimate is not None
    assert (estimate.mean, estimate.low, estimate.high) == (1.0, None, None)


def test_one_label_alone_has_no_estimate() -> None:
    assert estimate_kappa([1, 1], [1, 1]) is None


@pytest.mark.long
def test_a_kappa_interval_covers_in_95_of_100_sets() -> None:
    generator = np.random.default_rng(0)
    shares = np.array([[0.4, 0.1], [0.05, 0.45]])
    hits, sets = 0, 2000
    for table in generator.multinomial(150, shares.ravel(), size=sets):
        estimate = estimate_kappa(*pairs(table.reshape(2, 2).tolist()))
        assert estimate is not None
        hits += (estimate.low or -1) <= kappa_of(shares) <= (estimate.high or 1)
    assert 0.93 <= hits / sets <= 0.97
