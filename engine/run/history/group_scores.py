"""What the scores of a group say: GRPO's advantages, and how a judge agrees with gold scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

EPSILON = 1e-6
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Estimator:
    """How a run turns the scores of a group into advantages; verl's defaults for an external run.

    Source: ``compute_grpo_outcome_advantage`` in verl 0.9.1, ``verl/trainer/ppo/core_algos.py``:
    (r - mean) / (std + 1e-6) with the sample deviation (n - 1) of the group; an answer alone in
    its group keeps its score. Without ``divides_by_std`` (Dr. GRPO, arXiv 2503.20783) r - mean.
    """

    name: str = "grpo"
    divides_by_std: bool = True
    kl_in_reward: bool = False
    assumed: bool = False

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Estimator:
        """From the effective values of a run's configuration, by dotted key."""
        if "algorithm.adv_estimator" not in config:
            return cls(assumed=True)
        return cls(
            str(config["algorithm.adv_estimator"]),
            config.get("algorithm.norm_adv_by_std_in_grpo") is not False,
            config.get("algorithm.use_kl_in_reward") is True,
        )

    @property
    def formula(self) -> str:
        """In words, with what it leaves out."""
        if self.name != "grpo":
            return f"not computed for algorithm.adv_estimator={self.name}"
        text = "(r - mean) / (std + 1e-6)" if self.divides_by_std else "r - mean"
        text += " within the group"
        if self.kl_in_reward:
            text += ", without the KL penalty that verl puts into r"
        return f"{text} (assumed: verl's default)" if self.assumed else text

    def advantages(self, scores: Sequence[float]) -> list[float] | None:
        """One per score of a group; None when the estimator is not GRPO.

        They sum to 0 unless the group has a single score. Equal scores have no advantage.
        """
        if self.name != "grpo":
            return None
        if len(scores) < 2:
            return [score / self._divisor(1.0) for score in scores]
        if is_flat(scores):
            return [0.0] * len(scores)
        mean = math.fsum(scores) / len(scores)
        divisor = self._divisor(sample_std(scores))
        return [(score - mean) / divisor for score in scores]

    def _divisor(self, std: float) -> float:
        return std + EPSILON if self.divides_by_std else 1.0


def is_flat(scores: Sequence[float]) -> bool:
    """Whether several scores are equal: the group has no learning signal."""
    return len(scores) > 1 and max(scores) - min(scores) < _NO_SPREAD


def sample_std(scores: Sequence[float]) -> float:
    """The standard deviation with n - 1, as ``torch.std``; 0 for a single score."""
    if len(scores) < 2:
        return 0.0
    mean = math.fsum(scores) / len(scores)
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


Scores = Sequence[float | None]


@dataclass(frozen=True)
class Agreement:
    """Pairs of answers with different gold scores: in the order of gold, tied or reversed by the
    judge."""

    in_order: int
    tied: int
    reversed: int

    @property
    def pairs(self) -> int:
        return self.in_order + self.tied + self.reversed


def agreement(judge: Scores, gold: Scores) -> Agreement | None:
    """How the judge orders pairs; None when no two answers have both scores and differ in gold."""
    counts = {1: 0, 0: 0, -1: 0}
    scored = [(j, g) for j, g in zip(judge, gold, strict=False) if j is not None and g is not None]
    for (j1, g1), (j2, g2) in combinations(scored, 2):
        if g1 != g2:
            higher, lower = (j1, j2) if g1 > g2 else (j2, j1)
            counts[(higher > lower) - (higher < lower)] += 1
    result = Agreement(counts[1], counts[0], counts[-1])
    return result if result.pairs else None


def out_of_order(judge: Scores, gold: Scores) -> set[int]:
    """Indices of the answers whose order to some other answer the judge reverses."""
    scored = [
        (index, j, g)
        for index, (j, g) in enumerate(zip(judge, gold, strict=False))
        if j is not None and g is not None
    ]
    wrong: set[int] = set()
    for (index1, j1, g1), (index2, j2, g2) in combinations(scored, 2):
        if (j1 - j2) * (g1 - g2) < 0:
            wrong |= {index1, index2}
    return wrong
