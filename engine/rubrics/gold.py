"""Which gold scores can be trained on: the rule for caches, parquet rows and rewards."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

FEWEST_ANSWERS = 2


def gold_problem(answers: Sequence[Any], gold: Sequence[float | None]) -> str | None:
    """Why ``gold`` cannot rank ``answers``, or None."""
    if isinstance(answers, str) or isinstance(gold, str):
        return f"{'answers' if isinstance(answers, str) else 'gold_scores'} as text, not as a list"
    if len(answers) != len(gold):
        return f"{len(answers)} answers but {len(gold)} gold_scores"
    if len(answers) < FEWEST_ANSWERS:
        return f"fewer than {FEWEST_ANSWERS} answers to rank"
    if not all(isinstance(answer, str) for answer in answers):
        return "answers that are not text"
    if not all(_finite(score) for score in gold):
        return "gold_scores with null, NaN, infinity or text"
    return None


def finite_scores(scores: Any) -> tuple[float, ...]:
    """The scores, or none of them if any is missing, so that a gap does not become a zero."""
    listed = scores if isinstance(scores, list) else []
    return tuple(map(float, listed)) if all(map(_finite, listed)) else ()


def _finite(score: Any) -> bool:
    # A comparison, unlike math.isfinite, also works for integers too large for a float.
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return is_number and abs(score) <= sys.float_info.max
