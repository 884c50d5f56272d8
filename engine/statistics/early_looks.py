"""How much of the error budget a look at an unfinished comparison can spend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


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
