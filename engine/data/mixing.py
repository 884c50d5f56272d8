"""Drawing rows from several datasets in given proportions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from engine.base.errors import UsageError

T = TypeVar("T")


def mix(
    pools: Mapping[str, Sequence[T]], weights: Mapping[str, float], total: int | None, seed: int
) -> list[T]:
    """Shuffled rows of all ``pools`` in the proportions of ``weights``.

    Weights are normalised; pools of weight 0 are left out. Without ``total`` the result is as
    large as the scarcest pool allows. A pool shorter than its share is drawn with replacement.
    """
    used = {name: weight for name, weight in weights.items() if weight > 0}
    for name in used:
        if not pools[name]:
            raise UsageError(f"dataset '{name}' has no usable rows to mix")
    counts = shares({name: len(pools[name]) for name in used}, used, total)
    chooser = random.Random(seed)
    drawn = [row for name in used for row in _draw(pools[name], counts[name], chooser)]
    chooser.shuffle(drawn)
    return drawn


def shares(
    sizes: Mapping[str, int], weights: Mapping[str, float], total: int | None
) -> dict[str, int]:
    """Rows to take of each pool: its weight's part of ``total``, rounded to the nearest."""
    scale = sum(weights.values())
    if scale <= 0:
        raise UsageError("the weights of a mix must sum to more than 0")
    parts = {name: weight / scale for name, weight in weights.items()}
    if total is None:
        total = min(int(sizes[name] / part) for name, part in parts.items())
    return {name: round(total * part) for name, part in parts.items()}


def _draw(pool: Sequence[T], count: int, chooser: random.Random) -> list[T]:
    if count <= len(pool):
        return chooser.sample(pool, count)
    return chooser.choices(pool, k=count)
