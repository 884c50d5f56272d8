"""Is b better than a? Differences with intervals, p values and verdicts; how many values a verdict
needs; and what a look at an unfinished comparison may spend."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from engine.base.intervals import LEVEL, Estimate, estimate_clustered_mean, estimate_mean
from engine.base.student import t_quantile, t_test_p

Verdict = Literal["better", "worse", "identical", "undecided"]


@dataclass(frozen=True)
class Comparison:
    """The difference b - a of a metric.

    ``p``: two-sided; None where the verdict does not come from a test. ``needed``: for an undecided
    verdict, the number of units that would find the observed difference with 80% power; None if
    unknown. ``correlation`` of the pairs: None where it is undefined or nothing is paired.
    """

    difference: Estimate
    paired: bool
    verdict: Verdict
    p: float | None
    needed: int | None = None
    correlation: float | None = None


def compare_paired(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
) -> Comparison:
    """Compare two measurements of the same units, in the same order: a paired t test.

    ``clusters`` names the cluster of each pair (the prompt of a sample). Student (1908); for items
    of an evaluation, Miller (2024), section 4.2. Equal values throughout are "identical". When all
    differences are equal but not 0, they show no spread to test with: the exact sign test decides,
    which needs 6 pairs at 95%. Not for units that only share a name: a and b must be measured on
    the same item, or with the same seed.
    """
    differences = [right - left for left, right in zip(a, b, strict=True)]
    estimate = estimate_clustered_mean(
        differences, clusters if clusters is not None else range(len(differences))
    )
    if not any(differences):
        return Comparison(estimate, True, "identical", None, None, _correlation(a, b))
    tested = Comparison(
        estimate, True, "undecided", _test_mean(estimate), correlation=_correlation(a, b)
    )
    return _decide(tested)


def compare_unpaired(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Compare two independent samples: Welch's t test (1947).

    For runs without common seeds or items. Where pairs exist, `compare_paired` needs fewer units.
    """
    left, right = estimate_mean(a), estimate_mean(b)
    n, difference = len(a) + len(b), right.mean - left.mean
    if left.standard_error is None or right.standard_error is None:
        lone = Estimate(difference, None, None, None, n, n)
        return Comparison(lone, False, "undecided", None)
    squares = left.standard_error**2, right.standard_error**2
    error = math.sqrt(sum(squares))
    if error == 0:
        exact = Estimate(difference, difference, difference, 0.0, n, n)
        return Comparison(exact, False, "identical" if difference == 0 else "undecided", None)
    df = sum(squares) ** 2 / (squares[0] ** 2 / (len(a) - 1) + squares[1] ** 2 / (len(b) - 1))
    half = t_quantile((1 + LEVEL) / 2, df) * error
    estimate = Estimate(difference, difference - half, difference + half, error, n, n)
    return _decide(Comparison(estimate, False, "undecided", t_test_p(difference / error, df)))


def adjust_for_many(
    comparisons: Sequence[Comparison],
    more: int = 0,
    *,
    lower_is_better: bool = False,
) -> list[Comparison]:
    """The comparisons of several arms with one base, with p values and verdicts corrected.

    Holm (1979): the i-th smallest of m p values is multiplied by m - i + 1. The chance of any false
    verdict stays below 1 - LEVEL, however the comparisons depend on each other. The intervals are
    those of each comparison alone. ``more`` comparisons will follow: they count already, so that
    none of them takes a verdict back. ``lower_is_better``: what the verdicts mean.
    """
    tested = [comparison for comparison in comparisons if comparison.p is not None]
    adjusted = iter(holm([comparison.p for comparison in tested if comparison.p is not None], more))
    decided = [
        comparison
        if comparison.p is None
        else _decide(replace(comparison, p=next(adjusted)), len(tested) + more)
        for comparison in comparisons
    ]
    if not lower_is_better:
        return decided
    opposite: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
    return [replace(each, verdict=opposite.get(each.verdict, each.verdict)) for each in decided]


def holm(p_values: Sequence[float], more: int = 0) -> list[float]:
    """Adjusted p values in the given order; Holm, "A simple sequentially rejective multiple test
    procedure" (1979). ``more``: how many are not known yet and may be larger."""
    adjusted = [0.0] * len(p_values)
    largest, count = 0.0, len(p_values) + more
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _test_mean(estimate: Estimate) -> float | None:
    """p value of the hypothesis that the mean of the differences is 0."""
    if estimate.standard_error is None:
        return None
    if estimate.is_constant:
        return min(1.0, 2.0 ** (1 - estimate.units))
    return t_test_p(estimate.mean / estimate.standard_error, estimate.units - 1)


def _decide(comparison: Comparison, among: int = 1) -> Comparison:
    """The comparison with the verdict of its p value, or with the number of units it needs.

    ``among``: how many comparisons share the error budget; the smallest p value has to stand
    their Bonferroni correction.
    """
    estimate, alpha = comparison.difference, 1 - LEVEL
    if comparison.p is not None and comparison.p <= alpha:
        verdict: Verdict = "better" if estimate.mean > 0 else "worse"
        return replace(comparison, verdict=verdict, needed=None)
    needed = None
    if comparison.paired and estimate.standard_error and not estimate.is_constant:
        deviation = estimate.standard_error * math.sqrt(estimate.units)
        needed = needed_n(estimate.mean, deviation, alpha / among)
    return replace(comparison, verdict="undecided", needed=needed)


def _correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Pearson's correlation of the pairs; None below three pairs or without spread."""
    n = len(a)
    if n < 3:
        return None
    mean_a, mean_b = math.fsum(a) / n, math.fsum(b) / n
    cross = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread = math.fsum((x - mean_a) ** 2 for x in a) * math.fsum((y - mean_b) ** 2 for y in b)
    return None if spread == 0 else max(-1.0, min(1.0, cross / math.sqrt(spread)))


POWER = 0.8
MAX_N = 10_000_000


def needed_n(difference: float, deviation: float, alpha: float = 0.05) -> int | None:
    """How many paired values find ``difference`` with 80% power; None if more than 10 million.

    Starts from the normal approximation ((z_{1 - alpha / 2} + z_0.8) deviation / difference)^2 and
    counts up with the exact power of the t test.
    """
    if deviation == 0:
        return 2
    effect = abs(difference) / deviation
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(POWER)
    if effect * math.sqrt(MAX_N) < z:
        return None
    n = max(2, math.floor((z / effect) ** 2))
    while t_test_power(effect, n, alpha) < POWER:
        n += 1
    return n


def t_test_power(effect: float, n: int, alpha: float = 0.05) -> float:
    """Power of the two-sided one-sample (or paired) t test.

    ``effect``: true mean divided by the standard deviation of one value. The statistic of n values
    has the noncentral t distribution with n - 1 degrees of freedom and noncentrality
    effect * sqrt(n). It is integrated over s, the sample deviation divided by the true one:
    P(T > c) = E[Phi(effect sqrt(n) - c s)], with (n - 1) s^2 chi-squared distributed.
    """
    df, normal = n - 1, NormalDist()
    critical, shift = t_quantile(1 - alpha / 2, df), effect * math.sqrt(n)
    scale, weights = _deviation_density(df)
    reject = [normal.cdf(shift - critical * s) + normal.cdf(-shift - critical * s) for s in scale]
    return float(np.dot(weights, reject))


@lru_cache(maxsize=256)
def _deviation_density(df: int) -> tuple[tuple[float, ...], np.ndarray]:
    """Points and Simpson weights, summing to 1, of s = sqrt(chi-squared / df)."""
    spread = 9 / math.sqrt(2 * df)
    points = np.linspace(max(1e-9, 1 - spread), 1 + spread, 401)
    log_density = (df - 1) * np.log(points) - df * points**2 / 2
    weights = np.exp(log_density - log_density.max())
    weights[1:-1:2] *= 4
    weights[2:-1:2] *= 2
    return tuple(points.tolist()), weights / weights.sum()


def spent_alpha(fraction: float, alpha: float = 0.05) -> float:
    """The error budget spent when ``fraction`` of the planned steps is done.

    2 - 2 Phi(z_{1 - alpha / 2} / sqrt(fraction)): the O'Brien-Fleming-like spending function of Lan
    and DeMets (1983). Almost nothing early, all of ``alpha`` at the end.
    """
    if fraction <= 0:
        return 0.0
    normal = NormalDist()
    return 2 - 2 * normal.cdf(normal.inv_cdf(1 - alpha / 2) / math.sqrt(min(1.0, fraction)))


def alpha_of_looks(fractions: Sequence[float], alpha: float = 0.05) -> list[float]:
    """The level at which each of the looks, in order, can test.

    A look spends what the spending function has gained since the look before. The sum is at most
    ``alpha``, so the chance of a false stop at any look is too, whatever the looks' dependence and
    however few the seeds. Exact group-sequential boundaries are less strict, but hold for normal
    statistics only, and three seeds are not enough for those.
    """
    spent = [spent_alpha(fraction, alpha) for fraction in fractions]
    return [max(0.0, now - before) for before, now in zip([0.0, *spent], spent, strict=False)]
