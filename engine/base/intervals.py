"""Means, rates, agreement and pass@k, with their confidence intervals, and percentiles."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import NormalDist

from engine.base.student import t_quantile

LEVEL = 0.95


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Nearest-rank percentile of sorted values."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval.

    ``n``: how many values the mean is of. ``units``: how many of them are independent (the
    clusters). ``low``, ``high`` and ``standard_error`` are None with fewer than two units.
    """

    mean: float
    low: float | None
    high: float | None
    standard_error: float | None
    n: int
    units: int

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal up to rounding; False with fewer than two units."""
        error = self.standard_error
        return error is not None and error <= 1e-12 * abs(self.mean)

    @property
    def interval(self) -> list[float] | None:
        return None if self.low is None or self.high is None else [self.low, self.high]

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean of independent values with its t interval: mean +- t(n - 1) s / sqrt(n).

    Student (1908). Not for rates near 0 or 1 with few values (`estimate_rate`), and not for several
    samples of one prompt (`estimate_clustered_mean`): the interval would be too narrow.
    """
    return estimate_clustered_mean(values, range(len(values)))


def estimate_clustered_mean(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    weights: Sequence[float] | None = None,
) -> Estimate:
    """The mean of all values, with an interval in which each cluster counts as one observation.

    ``clusters`` names the cluster of each value: the n answers to a prompt are one cluster. With
    r_g the sum of a cluster's deviations from the mean, SE^2 = G / (G - 1) * sum r_g^2 / n^2, and
    the interval has G - 1 degrees of freedom. Liang and Zeger (1986); Miller, "Adding error bars to
    evals" (2024), section 2.2. Not for fewer than about 10 clusters of very different size.

    With ``weights`` (all positive) the mean is the ratio sum w v / sum w, the deviations are
    weighted, and n is sum w: the linearized ratio estimator, Cochran, "Sampling techniques" (1977),
    section 6.3.
    """
    if not values:
        raise ValueError("a mean needs at least one value")
    n, weights = len(values), weights if weights is not None else [1.0] * len(values)
    total = math.fsum(weights)
    mean = math.fsum(w * value for w, value in zip(weights, values, strict=True)) / total
    deviations: dict[Hashable, list[float]] = defaultdict(list)
    for value, weight, cluster in zip(values, weights, clusters, strict=True):
        deviations[cluster].append(weight * (value - mean))
    units = len(deviations)
    if units < 2:
        return Estimate(mean, None, None, None, n, units)
    squares = math.fsum(math.fsum(cluster) ** 2 for cluster in deviations.values())
    error = math.sqrt(units / (units - 1) * squares) / total
    half = t_quantile((1 + LEVEL) / 2, units - 1) * error
    return Estimate(mean, mean - half, mean + half, error, n, units)


def estimate_rate(successes: int, n: int) -> Estimate:
    """A rate of n independent trials with its Wilson score interval.

    Wilson (1927). Holds its level for small n and for rates near 0 and 1, where the t interval does
    not. Not for several samples of one prompt: use `estimate_clustered_mean`.
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n} trials are not a rate")
    z, rate = NormalDist().inv_cdf((1 + LEVEL) / 2), successes / n
    center = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else center - half
    high = 1.0 if successes == n else center + half
    return Estimate(rate, low, high, math.sqrt(rate * (1 - rate) / n), n, n)


def cohen_kappa(labels: Sequence[Hashable], decisions: Sequence[Hashable]) -> float | None:
    """Agreement beyond chance: (observed - expected) / (1 - expected). Cohen (1960).

    1 is perfect, 0 is chance. None when only one label occurs on both sides: chance agreement is
    then 1. Compare kappas only at similar shares of labels: a rare label lowers kappa.
    """
    if not labels:
        raise ValueError("kappa needs at least one label")
    n = len(labels)
    observed = sum(x == y for x, y in zip(labels, decisions, strict=True)) / n
    left, right = Counter(labels), Counter(decisions)
    expected = sum(left[label] * right[label] for label in left) / n**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def estimate_kappa(labels: Sequence[Hashable], decisions: Sequence[Hashable]) -> Estimate | None:
    """Cohen's kappa with the large-sample interval of Fleiss, Cohen and Everitt (1969), eq. 13.

    None as in `cohen_kappa`. Perfect agreement has no interval: without a single disagreement the
    data do not say how rare disagreements are. Not below about 50 labels, or 5 of each kind: the
    interval is then too narrow.
    """
    kappa, n = cohen_kappa(labels, decisions), len(labels)
    if kappa is None:
        return None
    left, right = Counter(labels), Counter(decisions)
    kinds = left.keys() | right.keys()
    expected = sum(left[kind] * right[kind] for kind in kinds) / n**2
    terms = []
    for (label, decision), count in Counter(zip(labels, decisions, strict=True)).items():
        if label == decision:
            weight = 1 - (left[label] + right[label]) / n * (1 - kappa)
        else:
            weight = (1 - kappa) * (right[label] + left[decision]) / n
        terms.append(count / n * weight**2)
    variance = math.fsum(terms) - (kappa - expected * (1 - kappa)) ** 2
    error = math.sqrt(max(0.0, variance) / n) / (1 - expected)
    if kappa == 1:
        return Estimate(kappa, None, None, None, n, n)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    return Estimate(kappa, max(-1.0, kappa - half), min(1.0, kappa + half), error, n, n)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Probability that at least one of k samples, drawn without replacement from n, is correct.

    1 - C(n - c, k) / C(n, k): unbiased, Chen et al., "Evaluating large language models trained on
    code" (2021). verl's `best@N` draws with replacement and is a different number.
    """
    _check_k(n, k)
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} correct of {n} samples")
    return 1 - comb(n - correct, k) / comb(n, k)


def best_of_k(scores: Sequence[float], k: int) -> float:
    """Expected maximum of k of the scores, drawn without replacement.

    The i-th smallest of n scores is the maximum of C(i - 1, k - 1) of the C(n, k) subsets. For
    scores of 0 and 1 it equals `pass_at_k`.
    """
    n = len(scores)
    _check_k(n, k)
    ordered = sorted(scores)
    return sum(comb(i, k - 1) * ordered[i] for i in range(k - 1, n)) / comb(n, k)


def _check_k(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} needs at least {max(k, 1)} samples; there are {n}")
