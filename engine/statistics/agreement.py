"""How well a judge agrees with labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from engine.statistics.intervals import LEVEL, Estimate


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


def estimate_kappa(
    labels: Sequence[Hashable], decisions: Sequence[Hashable], level: float = LEVEL
) -> Estimate | None:
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
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    return Estimate(kappa, max(-1.0, kappa - half), min(1.0, kappa + half), error, n, n)
