"""How many units a verdict needs, against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from engine.base.paired_comparison import needed_n

pytestmark = pytest.mark.long


def simulated_power(effect: float, n: int, experiments: int = 20_000) -> float:
    draws = np.random.default_rng(n).normal(effect, 1.0, size=(experiments, n))
    return float(np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05))


@pytest.mark.parametrize("effect", [0.2, 0.4])
def test_the_number_of_items_gives_80_percent_power_within_10_percent(effect: float) -> None:
    n = needed_n(effect, 1.0)
    assert n is not None
    assert simulated_power(effect, round(0.9 * n)) < 0.80 < simulated_power(effect, round(1.1 * n))


@pytest.mark.parametrize("effect", [1.0, 1.5, 2.0, 3.0, 4.0])
def test_the_number_of_seeds_is_right_within_one(effect: float) -> None:
    n = needed_n(effect, 1.0)
    assert n is not None
    simulated = next(k for k in range(2, 100) if simulated_power(effect, k) >= 0.80)
    assert abs(n - simulated) <= 1


def test_no_difference_needs_more_than_can_be_counted() -> None:
    assert needed_n(0.0, 1.0) is None
