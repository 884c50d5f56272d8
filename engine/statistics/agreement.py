"""How well a judge agrees with labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


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
