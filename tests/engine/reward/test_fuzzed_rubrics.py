"""Whatever a model writes as a rubric is read and rewarded without an exception."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

import pytest

from engine.reward.formula import RewardSettings
from engine.reward.judge.offline import OfflineKeywordJudge
from engine.reward.scoring import RewardItem, score_rollout
from engine.run.history.reward_records import RewardRecord
from engine.tasks.rubrics import format_rubric, has_wanted_sum, parse_rubric, scaled_to_sum
from tests.hostile_text import HOSTILE, LONE_SURROGATE

TEXTS = 10_000
ITEM = RewardItem(
    "q",
    "What helps against fever?",
    ("Drink water and rest, and see a doctor after three days.", "Rest.", ""),
    (0.9, 0.4, 0.1),
)
WORDS = (
    "water",
    "rest",
    "doctor",
    "fever",
    "**bold**",
    "(0.5pts)",
    "Points",
    "Item:",
    "\u2212",
    "é",
)
NUMBERS = (
    "0",
    "-0",
    "1e9",
    "9" * 400,
    "0." + "0" * 400 + "1",
    "1.2.3",
    "\u0665",
    "\u00b2",
    "NaN",
    "",
)
STRAY = (
    *HOSTILE.values(),
    LONE_SURROGATE,
    "<think>",
    "</think>",
    "[THINK]",
    "```json",
    '{"evaluations": [',
    "\n",
    "\n\n",
    "\u2028",
    "Points:",
    ", Item:",
    "- " * 50,
)


def ten_points(chance: random.Random) -> str:
    """The dialect of the prompt: points of any size that sum to 10."""
    cuts = sorted(chance.uniform(0, 10) for _ in range(chance.randrange(6)))
    points = [high - low for low, high in zip((0.0, *cuts), (*cuts, 10.0), strict=True)]
    return "\n".join(f"Points: {point:.2f}, Item: {criterion(chance)}" for point in points)


def signed_points(chance: random.Random) -> str:
    """The dialect of HealthBench: whole points from -10 to 10, with any sum."""
    points = (chance.randint(-10, 10) for _ in range(chance.randrange(1, 12)))
    return "\n".join(f"Points: {point}, Item: {criterion(chance)}" for point in points)


def criterion(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(6)))


def damaged(text: str, chance: random.Random) -> str:
    """The text after up to four changes: pieces cut, doubled, swapped, or of something else."""
    for _ in range(chance.randrange(5)):
        start, stop = sorted(chance.choices(range(len(text) + 1), k=2))
        piece = text[start:stop]
        new = chance.choice(
            (piece * 2, piece[::-1], chance.choice(STRAY), chance.choice(NUMBERS), "")
        )
        text = text[:start] + new + text[stop:]
    return text


@pytest.mark.long
@pytest.mark.parametrize("dialect", [ten_points, signed_points])
def test_a_damaged_rubric_still_gets_a_finite_reward(
    dialect: Callable[[random.Random], str],
) -> None:
    chance, judge, settings = (
        random.Random(dialect.__name__),
        OfflineKeywordJudge(),
        RewardSettings(),
    )

    async def score_all() -> list[RewardRecord]:
        texts = (damaged(dialect(chance), chance) for _ in range(TEXTS // 2))
        return [await score_rollout(text, ITEM, judge, settings) for text in texts]

    rewards = [score.reward for score in asyncio.run(score_all())]
    assert all(reward is not None and math.isfinite(reward) for reward in rewards)


@pytest.mark.long
@pytest.mark.parametrize("dialect", [ten_points, signed_points])
def test_a_damaged_rubric_is_scaled_to_the_wanted_sum_or_refused(
    dialect: Callable[[random.Random], str],
) -> None:
    chance = random.Random(dialect.__name__)
    for _ in range(TEXTS // 2):
        text = damaged(dialect(chance), chance)
        format_rubric(parse_rubric(text))
        scaled = scaled_to_sum(text)
        assert scaled is None or has_wanted_sum(scaled)
