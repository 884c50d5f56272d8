"""The bootstrap interval of a mean, as scripts that summarize logs compute it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.statistics.intervals import LEVEL


def script_bootstrap(
    values: Sequence[float], *, seed: int = 17, resamples: int = 200, level: float = LEVEL
) -> tuple[float, float]:
    """The percentile bootstrap interval of a mean as short scripts compute it.

    Each resample draws with ``random.Random(seed).choice``, and the ends are the sorted means at
    the indices floor(q (resamples - 1)): such a script prints the same interval.
    With 200 resamples the ends are coarse, and samples of one prompt count as independent; to
    compare models, use `estimate_clustered_mean`.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    array = np.asarray(values, dtype=float)
    draws = np.random.RandomState([seed])  # The stream of ``random.Random(seed)``.
    means = sorted(float(array[_choices(draws, array.size)].mean()) for _ in range(resamples))
    tail = (1 - level) / 2
    low, high = (int(q * (resamples - 1)) for q in (tail, 1 - tail))
    return means[low], means[high]


def _choices(draws: np.random.RandomState, n: int) -> np.ndarray:
    """``n`` indices below ``n``, as Python draws them: as many bits of each 32-bit word as ``n``
    has, until the number is small enough."""
    shift, chosen = 32 - n.bit_length(), np.empty(0, np.uint32)
    while chosen.size < n:
        # Never more words than indices are missing: the next resample begins with the next word.
        words = np.frombuffer(draws.bytes(4 * (n - chosen.size)), "<u4") >> shift
        chosen = np.concatenate([chosen, words[words < n]])
    return chosen
