"""pass@k and best@k from n samples per problem."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


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
