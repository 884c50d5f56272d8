"""Is b better than a? Differences with intervals, p values and verdicts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.statistics.intervals import LEVEL, Estimate, estimate_clustered_mean, estimate_mean
from engine.statistics.sample_size import needed_n
from engine.statistics.student import t_quantile, t_test_p

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
    level: float = LEVEL,
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
        differences, clusters if clusters is not None else range(len(differences)), level
    )
    if not any(differences):
        return Comparison(estimate, True, "identical", None, None, _correlation(a, b))
    tested = Comparison(
        estimate, True, "undecided", _test_mean(estimate), correlation=_correlation(a, b)
    )
    return _decide(tested, level)


def compare_unpaired(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Comparison:
    """Compare two independent samples: Welch's t test (1947).

    For runs without common seeds or items. Where pairs exist, `compare_paired` needs fewer units.
    """
    left, right = estimate_mean(a, level), estimate_mean(b, level)
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
    half = t_quantile((1 + level) / 2, df) * error
    estimate = Estimate(difference, difference - half, difference + half, error, n, n)
    return _decide(
        Comparison(estimate, False, "undecided", t_test_p(difference / error, df)), level
    )


def adjust_for_many(
    comparisons: Sequence[Comparison], level: float = LEVEL, more: int = 0
) -> list[Comparison]:
    """The comparisons of several arms with one base, with p values and verdicts corrected.

    Holm (1979): the i-th smallest of m p values is multiplied by m - i + 1. The chance of any false
    verdict stays below 1 - level, however the comparisons depend on each other. The intervals are
    those of each comparison alone. ``more`` comparisons will follow: they count already, so that
    none of them takes a verdict back.
    """
    tested = [comparison for comparison in comparisons if comparison.p is not None]
    adjusted = iter(holm([comparison.p for comparison in tested if comparison.p is not None], more))
    return [
        comparison
        if comparison.p is None
        else _decide(replace(comparison, p=next(adjusted)), level, len(tested) + more)
        for comparison in comparisons
    ]


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


def _decide(comparison: Comparison, level: float, among: int = 1) -> Comparison:
    """The comparison with the verdict of its p value, or with the number of units it needs.

    ``among``: how many comparisons share the error budget; the smallest p value has to stand
    their Bonferroni correction.
    """
    estimate, alpha = comparison.difference, 1 - level
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
