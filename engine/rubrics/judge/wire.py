"""What is sent to a judge model, and how its reply is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

SYSTEM = (
    "You grade answers with a rubric. For every answer, give each rubric item 0, 0.5 or 1 for how "
    "far the answer satisfies it. An item with negative points describes a fault: satisfying it "
    "lowers the score. total_score is the sum of (item score x item points) divided by the sum of "
    "the positive points, kept between 0 and 1. Reply with JSON only: "
    '{"evaluations": [{"answer_id": "a1", "total_score": 0.65}, ...]} with one entry per answer.'
)
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


class ReplyError(ValueError):
    """The reply holds no usable score for some answer; the message says what is missing."""


def judge_messages(question: str, answers: Sequence[str], rubric: str) -> list[dict[str, str]]:
    """The chat messages of one call, which grades all answers; ids are a1, a2, ..."""
    blocks = [f"Question: {question}"]
    blocks += [f"--- Answer a{i} ---\n{answer}" for i, answer in enumerate(answers, start=1)]
    blocks.append(f"--- Rubric ---\n{rubric}")
    blocks.append(f"Grade all {len(answers)} answers with this rubric. Reply with JSON only.")
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "\n\n".join(blocks)},
    ]


def read_scores(reply: str, n_answers: int) -> tuple[float, ...]:
    """Scores in answer order, clamped to [0, 1]; raises ReplyError when any is missing."""
    for value in _json_values(reply):
        scores = _scores_by_id(value)
        if scores:
            break
    else:
        raise ReplyError(f"no evaluations in {_shortened(reply)}")
    wanted = [f"a{number}" for number in range(1, n_answers + 1)]
    missing = [answer_id for answer_id in wanted if answer_id not in scores]
    if missing:
        raise ReplyError(f"no score for {', '.join(missing)} in {_shortened(reply)}")
    return tuple(min(1.0, max(0.0, scores[answer_id])) for answer_id in wanted)


def _json_values(reply: str) -> Iterator[Any]:
    """JSON values found in the reply: fenced blocks first, then from the first bracket on."""
    starts = [match.start() for match in [re.search(r"[{\[]", reply)] if match]
    for text in [*_FENCE.findall(reply), *(reply[start:] for start in starts)]:
        for candidate in (text.strip(), _closed(text)):
            try:
                yield json.JSONDecoder().raw_decode(candidate)[0]
            except ValueError:
                continue


def _closed(text: str) -> str:
    """``text`` cut after its last complete element, with the open brackets closed."""
    last = text.rfind("}")
    kept = text[: last + 1]
    open_brackets: list[str] = []
    in_string = escaped = False
    for character in kept:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_brackets.append("}" if character == "{" else "]")
        elif character in "}]" and open_brackets:
            open_brackets.pop()
    return kept + "".join(reversed(open_brackets))


def _scores_by_id(value: Any) -> dict[str, float]:
    entries = value.get("evaluations") if isinstance(value, dict) else value
    scores: dict[str, float] = {}
    for entry in entries if isinstance(entries, list) else ():
        score = _number(entry.get("total_score")) if isinstance(entry, dict) else None
        if score is not None:
            scores[str(entry.get("answer_id")).strip().lower()] = score
    return scores


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shortened(reply: str) -> str:
    text = " ".join(reply.split())
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
