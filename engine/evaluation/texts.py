"""Baselines that no model wrote: the golden rubric, and a generic one made at random."""

from __future__ import annotations

import random
from itertools import pairwise

from engine.evaluation.items import Item, digest
from engine.evaluation.targets import Target
from engine.rubrics import WANTED_SUM, RubricItem, format_rubric

_GENERIC = (
    "States a clear answer to the question",
    "Uses correct terminology",
    "Explains the reasoning step by step",
    "Mentions relevant limitations or uncertainty",
    "Gives at least one concrete example",
    "Is free of factual errors",
    "Addresses every part of the question",
    "Is well organized and easy to follow",
    "Avoids irrelevant content",
    "Supports claims with evidence",
    "Considers alternative explanations",
    "Is of appropriate length",
    "Gives actionable advice",
    "Uses a suitable tone for the reader",
    "Ends with a short summary",
)
_FEWEST, _MOST = 5, 8


def baseline_text(target: Target, item: Item, seed: int) -> str | None:
    """The text that stands for an answer of the baseline; None where the item has none."""
    if target.form == "golden":
        text = (item.row.get("extra_info") or {}).get("golden_rubric")
        return str(text) if text else None
    return _random_rubric(random.Random(digest([seed, item.uid])))


def _random_rubric(source: random.Random) -> str:
    """5 to 8 of 15 generic criteria, with random points that sum to 10.

    The points are the gaps between random cuts of 100 tenths, so none of them is 0.
    """
    criteria = source.sample(_GENERIC, source.randint(_FEWEST, _MOST))
    tenths = round(10 * WANTED_SUM)
    cuts = [0, *sorted(source.sample(range(1, tenths), len(criteria) - 1)), tenths]
    points = [(right - left) / 10 for left, right in pairwise(cuts)]
    return format_rubric(map(RubricItem, points, criteria))
