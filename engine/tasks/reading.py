"""Questions about a text, with one or several accepted answers, as in SQuAD and HotpotQA.

The formulas are those of SQuAD's official script, ``evaluate-v2.0.py`` (Rajpurkar et al. 2016,
2018).
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.tasks.questions import find_final_answer
from engine.tasks.rubrics import without_thoughts
from engine.tasks.task import Column, Example, RecordError, Task, Values, text_of

UNANSWERABLE = "unanswerable"
_INSTRUCTION = "Answer with a few words between <answer> and </answer>."
_OR_NONE = f'If the text does not answer the question, the answer is "{UNANSWERABLE}".'
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def _read(values: Values) -> Example:
    context, given = _texts(values.get("context"), "context"), values.get("answers")
    question = text_of(values.get("question"), "question").strip()
    # SQuAD 2.0 has questions without an answer. All of its prompts say so, not only theirs.
    may_lack = isinstance(given, Mapping)
    accepted = _texts(given.get("text") if isinstance(given, Mapping) else given, "answer")
    if not accepted and not may_lack:
        raise RecordError("the answer is empty")
    accepted = accepted or [UNANSWERABLE]
    instruction = f"{_INSTRUCTION} {_OR_NONE}" if may_lack else _INSTRUCTION
    # The question comes last: of a prompt that is too long, the beginning is cut off.
    content = "\n\n".join([*context, question, instruction])
    return Example(
        ({"role": "user", "content": content},),
        accepted[0],
        {"accepted": json.dumps(accepted, ensure_ascii=False)},
        accepted=tuple(accepted[1:]),
    )


def _texts(value: Any, name: str) -> list[str]:
    """One text or several, each once."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return list(dict.fromkeys(text_of(item, name).strip() for item in listed))


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


READING = Task(
    name="reading",
    summary="questions about a text, with several accepted answers: exact match and F1",
    scorer="engine.tasks.reading:compute_score",
    columns={
        "question": Column(("question", "query", "prompt", "input", "instruction")),
        "answers": Column(("answers", "answer", "ground_truth", "target", "output")),
        "context": Column(("context", "passage", "paragraph", "document"), is_required=False),
    },
    read=_read,
    extra=("accepted",),
    right_answer=lambda truth, _: f"<answer>{truth}</answer>",
    is_rate=lambda arguments: not arguments.get("partial_credit"),
    metrics=("f1",),
)
