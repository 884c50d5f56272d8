"""The messages of a judge call, and the scores in its reply."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from engine.tasks.rubrics import without_tags, without_thoughts

SYSTEM = (
    "You grade answers with a rubric. For every answer, give each rubric item 0, 0.5 or 1 for how "
    "far the answer satisfies it. An item with negative points describes a fault: satisfying it "
    "lowers the score. total_score is the sum of (item score x item points) divided by the sum of "
    "the positive points, kept between 0 and 1. Reply with JSON only: "
    '{"evaluations": [{"answer_id": "a1", "total_score": 0.65}, ...]} with one entry per answer.'
)
_BRACKET = re.compile(r"(?<![{\[][{\[])[{\[]")
"""A third bracket in a row begins no value that the first two do not begin."""
_GRADING = re.compile(r'\{\s*"evaluations"|\[\s*\{\s*"answer_id"')
_MOST_STARTS, _MOST_CUT = 200, 5
"""Limits, because each bracket may take a scan of the rest of the reply."""
_DECODER = json.JSONDecoder(strict=False)
"""Not strict, because models write line breaks inside strings."""
_DECIMAL = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
_SLACK = 1e-3
"""How far a model's arithmetic may overshoot the scale."""


class ReplyError(ValueError):
    """The reply lacks a usable score for some answer; the message names it."""


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
    """Scores in answer order, in [0, 1]; raises ReplyError when any is missing or on another scale.

    Reasoning is not part of a reply. Of several complete gradings the last one counts: earlier ones
    are drafts, or examples of the format. Totals below 0 become 0.
    """
    wanted = [f"a{number}" for number in range(1, n_answers + 1)]
    best: dict[str, float] = {}
    for value, _, _ in _json_parts(_without_thoughts(reply), with_cut=True):
        scores = _scores_by_id(value)
        if sum(name in scores for name in wanted) >= sum(name in best for name in wanted):
            best = scores or best
    if not best:
        raise ReplyError(f"no evaluations in {shortened(reply)}")
    missing = [answer_id for answer_id in wanted if answer_id not in best]
    if missing:
        raise ReplyError(f"no score for {', '.join(missing)} in {shortened(reply)}")
    totals = [best[answer_id] for answer_id in wanted]
    # Clipping would silently make points out of 10 or 100 equal.
    if any(not -1 - _SLACK <= score <= 1 + _SLACK for score in totals):
        listed = ", ".join(f"{score:g}" for score in totals)
        raise ReplyError(f"scores on another scale than 0 to 1: {listed}")
    return tuple(min(1.0, max(0.0, score)) for score in totals)


def _without_thoughts(reply: str) -> str:
    """The reply without reasoning; tags quoted inside its JSON do not count."""
    parts, end = [], 0
    for _, start, stop in _json_parts(reply):
        parts += [reply[end:start], without_tags(reply[start:stop])]
        end = stop
    return without_thoughts("".join([*parts, reply[end:]]))


def _json_parts(reply: str, with_cut: bool = False) -> Iterator[tuple[Any, int, int]]:
    """The outermost JSON objects and lists in the reply, in order, each with its start and end.

    Brackets in the surrounding text are skipped. ``with_cut``: a grading that was cut off ends with
    its last complete element.
    """
    end, cut = 0, 0
    for match in islice(_BRACKET.finditer(reply), _MOST_STARTS):
        start = match.start()
        if start < end:
            continue
        value, stop = _decoded(reply, start)
        if not stop and with_cut and cut < _MOST_CUT and _GRADING.match(reply, start):
            cut += 1
            yield _decoded(_closed(reply[start:]), 0)[0], start, len(reply)
        elif stop:
            end = stop
            yield value, start, stop


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at ``start`` and its end, or ``(None, 0)``."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, 0


def _closed(text: str) -> str:
    """``text`` cut after its last complete element, with the open brackets closed."""
    last = text.rfind("}")
    complete = text[: last + 1]
    open_brackets: list[str] = []
    in_string = escaped = False
    for character in complete:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_brackets.append("}" if character == "{" else "]")
        elif character in "}]" and open_brackets:
            open_brackets.pop()
    return complete + "".join(reversed(open_brackets))


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
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def shortened(reply: str) -> str:
    """A reply in the form that errors quote."""
    text = " ".join(reply.split())
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
