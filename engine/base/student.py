"""Student's t distribution: its cdf, its quantiles, and the p value of a t test."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_LARGE_DF = 1e6
"""Above this t and normal quantiles agree to six digits."""


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) for ``df`` degrees of freedom.

    The regularized incomplete beta function, Abramowitz and Stegun 26.7.1.
    """
    if df >= _LARGE_DF:
        return _NORMAL.cdf(t)
    tail = t_test_p(t, df) / 2
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """The t with P(T <= t) = ``probability``, to 12 digits, by bisection."""
    if not 0 < probability < 1:
        raise ValueError(f"probability {probability} is not between 0 and 1")
    if df >= _LARGE_DF:
        return _NORMAL.inv_cdf(probability)
    if probability < 0.5:
        return -t_quantile(1 - probability, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, df) < probability else (low, middle)
    return high


def t_test_p(t: float, df: float) -> float:
    """Two-sided p value of a t statistic."""
    if df >= _LARGE_DF:
        return 2 * _NORMAL.cdf(-abs(t))
    return _incomplete_beta(df / (df + t * t), t * t / (df + t * t), df / 2, 0.5)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), Abramowitz and Stegun 26.5.8.

    ``y`` is 1 - x, given so that it keeps its digits where x is close to 1.
    """
    if x <= 0 or y <= 0:
        return float(y <= 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(y, x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(y) - log_beta)
    return front * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by the modified Lentz method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            d = 1 / _not_zero(1 + coefficient * d)
            c = _not_zero(1 + coefficient / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
