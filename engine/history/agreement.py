"""Whether a judge puts answers in the order that their gold scores do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

Scores = Sequence[float | None]


@dataclass(frozen=True)
class Agreement:
    """Pairs of answers that gold tells apart: as gold has them, tied by the judge, reversed."""

    in_order: int
    tied: int
    reversed: int

    @property
    def pairs(self) -> int:
        return self.in_order + self.tied + self.reversed


def agreement(judge: Scores, gold: Scores) -> Agreement | None:
    """None when no two answers have both scores and differ in gold."""
    counts = {1: 0, 0: 0, -1: 0}
    scored = [(j, g) for j, g in zip(judge, gold, strict=False) if j is not None and g is not None]
    for (j1, g1), (j2, g2) in combinations(scored, 2):
        if g1 != g2:
            higher, lower = (j1, j2) if g1 > g2 else (j2, j1)
            counts[(higher > lower) - (higher < lower)] += 1
    found = Agreement(counts[1], counts[0], counts[-1])
    return found if found.pairs else None


def out_of_order(judge: Scores, gold: Scores) -> set[int]:
    """The answers that the judge puts on the wrong side of some other one."""
    known = [
        (index, j, g)
        for index, (j, g) in enumerate(zip(judge, gold, strict=False))
        if j is not None and g is not None
    ]
    wrong: set[int] = set()
    for (left, j1, g1), (right, j2, g2) in combinations(known, 2):
        if (j1 - j2) * (g1 - g2) < 0:
            wrong |= {left, right}
    return wrong
