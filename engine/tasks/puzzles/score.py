"""Score the answer to a puzzle, under the contract of verl's ``compute_score``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.rubrics import without_thoughts
from engine.tasks.puzzles.sets import score_answer

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_LONGEST = 10_000


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    partial_credit: float = 1.0,
) -> dict[str, float]:
    """1 for a right answer; otherwise ``partial_credit`` times what the set gives for it.

    Beside the score: ``right``, whether the set gives 1, and ``marked``, whether the answer stands
    in ``<answer>`` tags. UsageError, which is no score, for a set that is refused.
    """
    extra = extra_info or {}
    response = without_thoughts(solution_str)[-_LONGEST:]
    tagged = _TAGGED.findall(response)
    answer = (tagged[-1] if tagged else response).strip()
    # Python reads the digits of every script, so that sets take ٥ for 5.
    is_plain = all(char.isascii() for char in answer if char.isdecimal())
    score = score_answer(extra["puzzle"], answer, json.loads(extra["entry"])) if is_plain else 0.0
    right = float(score == 1)
    return {
        "score": right or partial_credit * score,
        "right": right,
        "marked": float(bool(tagged)),
    }
