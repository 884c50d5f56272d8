"""What a comparison of n values can see, and how many values a verdict needs."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from engine.statistics.student import t_quantile

POWER = 0.8
MAX_N = 10_000_000


def detectable_difference(deviation: float, n: int, alpha: float = 0.05) -> float | None:
    """The smallest true difference that a paired t test of n values finds with 80% power.

    ``deviation``: standard deviation of one paired difference. None with fewer than two values.
    Cohen, "Statistical power analysis" (1988), 2.2. Plan with it before a run; after one, it does
    not say whether an observed difference is real.
    """
    if n < 2:
        return None
    low, high = 0.0, 1.0
    while t_test_power(high, n, alpha) < POWER:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if t_test_power(middle, n, alpha) < POWER else (low, middle)
    return high * deviation


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
