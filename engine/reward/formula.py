"""The GRubrics reward: a rubric is good when the judge, using it, ranks answers as gold does.

reward = spearman(judge, gold)
         - lambda_len     * max(0, n_chars - threshold) / threshold
         + lambda_info    * 4 p (1 - p),  p = share of judge scores >= 0.5
         - lambda_defense * max(0, 1 - std(judge) / 0.2)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

PASS_MARK = 0.5
ENOUGH_SPREAD = 0.2


class RewardSettings(BaseModel):
    """Weights of the reward's terms."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    lambda_len: float = Field(0.1, ge=0)
    """Weight of the penalty for rubrics longer than char_threshold."""
    lambda_info: float = Field(0.3, ge=0)
    """Weight of the bonus for scores on both sides of 0.5."""
    lambda_defense: float = Field(0.3, ge=0)
    """Weight of the penalty for scores that hardly differ (std below 0.2)."""
    char_threshold: int = Field(3000, ge=1)
    """Characters of a rubric from which length is punished."""
    use_contrastive: bool = True
    """Whether prompts contain excerpts of the answers. It is decided when a parquet file is
    prepared; the file records its value, so a run can be checked against it."""


@dataclass(frozen=True)
class RewardParts:
    """The four components before weighting. Only ``alignment`` can be negative (-1 to 1)."""

    alignment: float
    length_penalty: float
    info_value: float
    defense_penalty: float


def reward_parts(
    judge: Sequence[float], gold: Sequence[float], n_chars: int, char_threshold: int
) -> RewardParts:
    """The terms for one rubric; raises ValueError when the score lists differ in length."""
    return RewardParts(
        alignment=spearman(judge, gold),
        length_penalty=max(0, n_chars - char_threshold) / char_threshold,
        info_value=info_value(judge),
        defense_penalty=defense_penalty(judge),
    )


def total_reward(parts: RewardParts, settings: RewardSettings) -> float:
    """The weighted sum of the terms: at most 1 + lambda_info."""
    return (
        parts.alignment
        - settings.lambda_len * parts.length_penalty
        + settings.lambda_info * parts.info_value
        - settings.lambda_defense * parts.defense_penalty
    )


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's rank correlation with average ranks for ties.

    A constant list has no ranking and scores 0; fewer than two values always agree (1).
    """
    if len(left) != len(right):
        raise ValueError(f"{len(left)} judge scores for {len(right)} gold scores")
    if len(left) < 2:
        return 1.0
    ranks = average_ranks(left), average_ranks(right)
    if any(len(set(side)) == 1 for side in ranks):
        return 0.0
    return statistics.correlation(*ranks)


def average_ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value, from 1; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def info_value(scores: Sequence[float]) -> float:
    """4 p (1 - p) for the share p of passed answers: 1 when half pass, 0 when all or none do."""
    if len(scores) < 2:
        return 0.0
    share = sum(score >= PASS_MARK for score in scores) / len(scores)
    return 4 * share * (1 - share)


def defense_penalty(scores: Sequence[float]) -> float:
    """1 for scores without spread, falling to 0 at a population standard deviation of 0.2."""
    if len(scores) < 2:
        return 1.0
    return max(0.0, 1 - statistics.pstdev(scores) / ENOUGH_SPREAD)
