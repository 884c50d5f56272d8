"""Verdicts: how often they are right, and what they say when they cannot be given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.base.paired_comparison import (
    Comparison,
    adjust_for_many,
    compare_paired,
    compare_unpaired,
    holm,
    needed_n,
)

EXPERIMENTS = 1000


def half_width(comparison: Comparison) -> float:
    assert comparison.difference.half_width is not None
    return comparison.difference.half_width


def seeds_pairs(effect: float, seeds: int, generator: np.random.Generator) -> Comparison:
    """A base and an arm whose paired difference has deviation 1 and mean ``effect``."""
    common = generator.normal(size=seeds)
    noise = generator.normal(scale=math.sqrt(0.5), size=(2, seeds))
    return compare_paired((common + noise[0]).tolist(), (common + noise[1] + effect).tolist())


@given(
    st.lists(
        st.tuples(st.floats(min_value=-5, max_value=5), st.floats(min_value=-5, max_value=5)),
        min_size=3,
        max_size=30,
    )
)
def test_the_paired_p_value_is_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = [left for left, _ in pairs], [right for _, right in pairs]
    if np.std(np.subtract(b, a)) < 1e-6:
        return
    assert compare_paired(a, b).p == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=1e-8)


def test_the_unpaired_p_value_is_welchs() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=8), generator.normal(0.5, 3.0, size=15)
    comparison = compare_unpaired(a.tolist(), b.tolist())
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert comparison.p == pytest.approx(expected.pvalue)
    assert (comparison.difference.low, comparison.difference.high) == pytest.approx(
        tuple(expected.confidence_interval())
    )


@pytest.mark.parametrize("n", [1, 2, 40])
def test_equal_values_are_identical_and_differ_by_exactly_0(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n).tolist()
    comparison = compare_paired(values, list(values))
    assert comparison.verdict == "identical"
    assert comparison.difference.mean == 0
    assert comparison.p is None


def test_one_pair_gives_no_verdict_and_no_interval() -> None:
    comparison = compare_paired([0.1], [0.9])
    assert comparison.verdict == "undecided"
    assert comparison.difference.low is None


def test_the_interval_of_two_pairs_is_9_deviations_wide_to_each_side() -> None:
    comparison = compare_paired([0.0, 0.0], [1.0, 2.0])
    assert half_width(comparison) / math.sqrt(0.5) == pytest.approx(8.98, abs=0.01)
    assert comparison.verdict == "undecided"


@pytest.mark.parametrize(("n", "verdict"), [(2, "undecided"), (5, "undecided"), (6, "better")])
def test_equal_differences_need_six_pairs(n: int, verdict: str) -> None:
    base = [0.25 * index for index in range(n)]
    assert compare_paired(base, [value + 1.0 for value in base]).verdict == verdict


def test_units_that_differ_in_number_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        compare_paired([1.0, 2.0], [1.0])


@pytest.mark.thorough
@pytest.mark.parametrize(("correlation", "most"), [(0.8, 0.68), (0.9, 0.58)])
def test_pairing_narrows_the_interval_of_right_and_wrong_answers(
    correlation: float, most: float
) -> None:
    """200 items of a normal difficulty that two models share so far: the second passes 57%."""
    generator = np.random.default_rng(4)
    covariance, marks = [[1, correlation], [correlation, 1]], [0.0, stats.norm.ppf(0.43)]
    ratios = []
    for _ in range(200):
        latent = generator.multivariate_normal([0, 0], covariance, size=200)
        a, b = (latent > marks).T.astype(float).tolist()
        ratios.append(half_width(compare_paired(a, b)) / half_width(compare_unpaired(a, b)))
    assert np.mean(ratios) <= most


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("seeds", [3, 5])
def test_a_paired_interval_over_seeds_covers_the_difference(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    covered = 0
    for _ in range(EXPERIMENTS):
        estimate = seeds_pairs(0.7, seeds, generator).difference
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.7 <= estimate.high
    assert 0.93 <= covered / EXPERIMENTS <= 0.97


@pytest.mark.thorough
@pytest.mark.long
def test_equal_arms_get_a_false_verdict_in_5_of_100_experiments() -> None:
    generator = np.random.default_rng(5)
    verdicts = [seeds_pairs(0.0, 3, generator).verdict for _ in range(EXPERIMENTS)]
    assert sum(verdict != "undecided" for verdict in verdicts) / EXPERIMENTS <= 0.06


@pytest.mark.parametrize(("effect", "seeds"), [(4.0, 3), (2.0, 5)])
def test_a_large_effect_is_found_with_few_seeds(effect: float, seeds: int) -> None:
    generator = np.random.default_rng(6)
    verdicts = [seeds_pairs(effect, seeds, generator).verdict for _ in range(EXPERIMENTS)]
    assert verdicts.count("better") / EXPERIMENTS >= 0.88


@pytest.mark.thorough
@pytest.mark.long
def test_ten_equal_arms_get_any_false_verdict_in_5_of_100_experiments() -> None:
    generator = np.random.default_rng(7)
    false = 0
    for _ in range(EXPERIMENTS):
        base, arms = generator.normal(size=5), generator.normal(size=(10, 5))
        p_values = stats.ttest_1samp(arms - base, 0.0, axis=1).pvalue
        false += min(holm(p_values.tolist())) <= 0.05
    assert false / EXPERIMENTS <= 0.05


def test_holm_multiplies_the_smallest_p_value_most() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_a_verdict_that_is_withdrawn_among_many_says_how_many_seeds_it_needs() -> None:
    base = [0.0] * 5
    arm = compare_paired(base, [0.4, 0.9, 1.1, 1.6, 0.5])
    others = [compare_paired(base, [0.3, -0.2, 0.1, -0.4, 0.2])] * 9
    assert arm.verdict == "better"
    adjusted = adjust_for_many([arm, *others])[0]
    assert adjusted.verdict == "undecided"
    assert adjusted.difference.standard_error is not None
    assert arm.needed is None
    assert adjusted.needed == needed_n(0.9, adjusted.difference.standard_error * 5**0.5, 0.005)
