"""Score an answer by the words that it shares with the accepted ones.

The contract is that of verl's ``compute_score``. The formulas are those of SQuAD's official script,
``evaluate-v2.0.py`` (Rajpurkar et al. 2016, 2018).
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.rubrics import without_thoughts
from engine.tasks.questions.answers import find_final_answer

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    partial_credit: float = 0.0,
) -> dict[str, float]:
    """1 for the words of an accepted answer; otherwise ``partial_credit`` times ``f1``.

    Beside the score: ``exact_match`` and ``f1``, each the best over the accepted answers of the row
    (``extra_info.accepted``, or else the ground truth), and ``marked``, whether the response says
    which part is the answer.
    """
    stored = (extra_info or {}).get("accepted")
    accepted: list[str] = json.loads(stored) if stored else [ground_truth]
    answer = find_final_answer(without_thoughts(solution_str))
    if answer is None:
        return {"score": 0.0, "exact_match": 0.0, "f1": 0.0, "marked": 0.0}
    exact = max(exact_match(answer.text, truth) for truth in accepted)
    f1 = max(token_f1(answer.text, truth) for truth in accepted)
    return {
        "score": exact or partial_credit * f1,
        "exact_match": exact,
        "f1": f1,
        "marked": float(answer.is_marked),
    }


def normalize(text: str) -> str:
    """The text in lower case, without punctuation, articles and white space around words."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, truth: str) -> float:
    """1 if the normalized texts are equal, otherwise 0."""
    return float(normalize(answer) == normalize(truth))


def token_f1(answer: str, truth: str) -> float:
    """``2pr / (p + r)``: ``p`` is the share of the answer's words that are shared, ``r`` that of
    the truth's. A repeated word counts as often as both have it. If either has no words, 1 if both
    have none."""
    said, wanted = normalize(answer).split(), normalize(truth).split()
    if not said or not wanted:
        return float(said == wanted)
    shared = (Counter(said) & Counter(wanted)).total()
    return 2 * shared / (len(said) + len(wanted))
