"""Looking early does not raise the chance of a false stop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from engine.base.paired_comparison import alpha_of_looks, spent_alpha

EXPERIMENTS = 2000
LOOKS = [look / 10 for look in range(1, 11)]


def test_the_whole_budget_is_spent_at_the_end() -> None:
    assert spent_alpha(1.0) == pytest.approx(0.05)
    assert sum(alpha_of_looks(LOOKS)) == pytest.approx(0.05)


def test_nothing_is_spent_before_the_start() -> None:
    assert spent_alpha(0.0) == 0.0


@pytest.mark.parametrize("seeds", [3, 5])
def test_ten_looks_stop_an_equal_arm_in_5_of_100_experiments(seeds: int) -> None:
    """Curves of equal arms, whose differences drift as a random walk that is averaged so far."""
    steps = np.random.default_rng(seeds).normal(size=(EXPERIMENTS, len(LOOKS), seeds))
    means = steps.cumsum(axis=1) / np.arange(1, len(LOOKS) + 1)[:, None]
    p_values = stats.ttest_1samp(means, 0.0, axis=2).pvalue
    naive = (p_values <= 0.05).any(axis=1).mean()
    stopped = (p_values <= np.array(alpha_of_looks(LOOKS))).any(axis=1).mean()
    assert stopped <= 0.05
    assert naive > 0.15
