"""Intervals: their formulas, and how often they cover the true value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.base.intervals import (
    Estimate,
    estimate_clustered_mean,
    estimate_mean,
    estimate_rate,
)

SETS = 2000


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=2, max_size=50))
def test_the_mean_interval_is_the_t_interval(values: list[float]) -> None:
    estimate = estimate_mean(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    assert estimate.standard_error == pytest.approx(error, rel=1e-6, abs=1e-6)
    if error > 1e-3:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=error)
        assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_one_value_has_no_interval() -> None:
    assert estimate_mean([0.5]) == Estimate(0.5, None, None, None, 1, 1)


def test_no_value_has_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        estimate_mean([])


@pytest.mark.long
def test_a_mean_interval_covers_the_mean_in_95_of_100_sets() -> None:
    generator = np.random.default_rng(0)
    sets = generator.beta(2, 3, size=(SETS, 200))
    share = sum(covers(estimate_mean(values.tolist()), 0.4) for values in sets) / SETS
    assert 0.93 <= share <= 0.97


@pytest.mark.parametrize(
    ("n", "rate", "least"), [(20, 0.05, 0.92), (50, 0.9, 0.93), (100, 0.05, 0.93)]
)
def test_wilson_covers_rates_near_0_and_1(n: int, rate: float, least: float) -> None:
    chances = stats.binom.pmf(range(n + 1), n, rate)
    covered = [chances[hits] for hits in range(n + 1) if covers(estimate_rate(hits, n), rate)]
    assert math.fsum(covered) >= least


@given(
    st.integers(min_value=1, max_value=300).flatmap(
        lambda n: st.tuples(st.integers(min_value=0, max_value=n), st.just(n))
    )
)
def test_wilson_is_scipys_and_stays_between_0_and_1(counts: tuple[int, int]) -> None:
    successes, n = counts
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    estimate = estimate_rate(successes, n)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= (estimate.low or 0) <= (estimate.high or 0) <= 1


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_what_is_no_rate_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a rate"):
        estimate_rate(successes, n)


@given(
    st.lists(st.lists(st.floats(min_value=-10, max_value=10), min_size=1, max_size=5), min_size=2)
)
def test_the_clustered_error_is_that_of_the_formula(groups: list[list[float]]) -> None:
    values = np.concatenate([np.array(group) for group in groups])
    clusters = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    residuals = values - values.mean()
    same = clusters[:, None] == clusters[None, :]
    cross = (np.outer(residuals, residuals) * same).sum()
    count = len(groups)
    expected = math.sqrt(max(0.0, cross) * count / (count - 1)) / len(values)
    estimate = estimate_clustered_mean(values.tolist(), clusters.tolist())
    assert estimate.standard_error == pytest.approx(expected, abs=1e-7)
    assert estimate.units == count


def test_clusters_of_equal_size_give_the_error_of_their_means() -> None:
    samples = np.random.default_rng(1).normal(size=(30, 4))
    clustered = estimate_clustered_mean(samples.ravel().tolist(), np.repeat(range(30), 4).tolist())
    of_means = estimate_mean(samples.mean(axis=1).tolist())
    assert clustered.standard_error == pytest.approx(of_means.standard_error, abs=1e-12)
    assert (clustered.low, clustered.high) == pytest.approx((of_means.low, of_means.high))


def test_samples_of_one_prompt_taken_as_independent_would_narrow_the_interval() -> None:
    generator = np.random.default_rng(2)
    passes = generator.random((100, 4)) < generator.beta(0.5, 0.5, size=(100, 1))
    values = passes.ravel().astype(float).tolist()
    clustered = estimate_clustered_mean(values, np.repeat(range(100), 4).tolist())
    naive = estimate_mean(values)
    assert clustered.standard_error is not None
    assert naive.standard_error is not None
    assert clustered.standard_error >= 1.4 * naive.standard_error


def test_a_weighted_mean_has_the_interval_of_a_ratio() -> None:
    generator = np.random.default_rng(3)
    weights = generator.integers(5, 50, size=12).astype(float)
    values = generator.normal(2, 1, size=12)
    estimate = estimate_clustered_mean(values.tolist(), range(12), weights=weights.tolist())
    ratio = float((weights * values).sum() / weights.sum())
    spread = float(np.std(weights * (values - ratio), ddof=1))
    assert estimate.mean == pytest.approx(ratio)
    assert estimate.standard_error == pytest.approx(spread / math.sqrt(12) / weights.mean())


@pytest.mark.long
def test_a_weighted_interval_covers_the_ratio_in_95_of_100_sets() -> None:
    generator = np.random.default_rng(4)
    hits = 0
    for _ in range(SETS):
        weights = generator.integers(20, 60, size=60)
        losses = generator.normal(2 - weights / 50, 0.5)  # Long responses have a lower loss.
        estimate = estimate_clustered_mean(losses.tolist(), range(60), weights=weights.tolist())
        hits += covers(estimate, 2 - _MEAN_SQUARE / _MEAN / 50)
    assert 0.93 <= hits / SETS <= 0.97


_MEAN, _MEAN_SQUARE = 39.5, float(np.mean(np.arange(20, 60) ** 2))
