"""Rubrics: their text, the gold scores that they are tested with, and the prompt that asks for one.

A rubric has one item per line, ``Points: <number>, Item: <text>``. Only the standard library is
imported: the scorers of tasks, in processes of their own, take ``without_thoughts`` from here.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_NUMBER = r"(?P<points>[-+\u2212]?\d{1,6}(?:\.\d+)?)"
"""Longer numbers are no points: nobody weighs items by millions, and sums of them may overflow."""
_LEAD = r"^\s*(?:[-*\u2022+]\s+|\d+[.)]\s+)?"
_POINTS = rf"(?:\*\*)?points?(?:\*\*)?\s*[:=](?:\*\*)?\s*{_NUMBER}"
_ITEM = r"(?:\*\*)?item(?:\*\*)?\s*[:=](?:\*\*)?"
_BREAK = r"\s*[,;|\u2014\u2013-]\s*"

_FORWARD = re.compile(rf"{_LEAD}{_POINTS}{_BREAK}{_ITEM}(?P<text>.*)$", re.IGNORECASE)
_REVERSED = re.compile(rf"{_LEAD}{_ITEM}(?P<text>.*?){_BREAK}{_POINTS}\s*$", re.IGNORECASE)
_POINTS_ALONE = re.compile(rf"{_LEAD}{_POINTS}(?:{_BREAK})?\s*$", re.IGNORECASE)
_ITEM_ALONE = re.compile(rf"{_LEAD}{_ITEM}(?P<text>.*)$", re.IGNORECASE)

WANTED_SUM = 10.0
"""The sum that ``SYSTEM`` asks for."""
_STEPS = (10, 100, 1000)
"""Fractions of a point to round to, the coarsest first."""
_LIMIT = 1e6
"""Points of this size are not read back."""


@dataclass(frozen=True)
class RubricItem:
    """One criterion. ``points`` may be negative (a fault) or fractional."""

    points: float
    criterion: str


def parse_rubric(text: str) -> tuple[RubricItem, ...]:
    """The items in ``text``, in order; other text around them is ignored.

    Lines that follow an item without a blank line continue it. Items without text are dropped.
    """
    parsed: list[tuple[float, list[str]]] = []
    is_open = False
    for line in text.splitlines():
        header = _header(line)
        if header is not None:
            parsed.append((header[0], [header[1]]))
        elif is_open and (alone := _ITEM_ALONE.match(line)) and not any(parsed[-1][1]):
            parsed[-1][1].append(alone["text"])
        elif is_open and line.strip():
            parsed[-1][1].append(line)
        is_open = bool(parsed) and bool(line.strip())
    texts = ((points, " ".join(" ".join(parts).split())) for points, parts in parsed)
    return tuple(RubricItem(points, text) for points, text in texts if text)


def format_rubric(items: Iterable[RubricItem]) -> str:
    """The canonical text of ``items``; ``parse_rubric`` reads it back unchanged.

    Points have at most six decimals.
    """
    return "\n".join(f"Points: {_plain(item.points)}, Item: {item.criterion}" for item in items)


def has_wanted_sum(text: str) -> bool:
    """Whether the points sum to 10; also a text that holds no points at all."""
    items = parse_rubric(text)
    return not items or math.isclose(sum(item.points for item in items), WANTED_SUM, abs_tol=1e-6)


def scaled_to_sum(text: str) -> str | None:
    """The rubric with its points in the same proportions and a sum of 10; scores do not change.

    Unchanged if they already do. None if their sum is 0 or less, which no scale changes, or so
    close to 0 that an item would get a million. Points are rounded to tenths, or finer where an
    item would become 0; the largest item takes the rest.
    """
    if has_wanted_sum(text):
        return text
    items = parse_rubric(text)
    total = sum(item.points for item in items)
    if total <= 0 or max(abs(item.points) for item in items) * WANTED_SUM >= total * _LIMIT:
        return None
    for step in _STEPS:
        parts = [round(item.points * WANTED_SUM / total * step) for item in items]
        if all(part or not item.points for part, item in zip(parts, items, strict=True)):
            break
    largest = max(range(len(parts)), key=lambda index: parts[index])
    parts[largest] += round(WANTED_SUM * step) - sum(parts)
    return format_rubric(
        replace(item, points=part / step) for item, part in zip(items, parts, strict=True)
    )


def _header(line: str) -> tuple[float, str] | None:
    match = _FORWARD.match(line) or _REVERSED.match(line) or _POINTS_ALONE.match(line)
    if match is None:
        return None
    return float(match["points"].replace("\u2212", "-")), match.groupdict().get("text", "")


def _plain(points: float) -> str:
    return str(int(points)) if points == int(points) else f"{points:f}".rstrip("0").rstrip(".")


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


Message = dict[str, str]

EXCERPT_CHARS = 500
HIGH_LABEL = "High-quality answer excerpt:"
LOW_LABEL = "Low-quality answer excerpt:"

SYSTEM = (
    "You are a rubric writer who prepares the grading of answers to a question. "
    "Write one item per line in the form `Points: <number>, Item: <text>`. "
    "The points must sum to exactly 10.0. "
    "Each item must be actionable, weighted by importance, "
    "and able to separate good answers from poor ones."
)
_EXCERPTS_INTRO = "Use these excerpts to see what separates good answers from poor ones.\n"


@dataclass(frozen=True)
class Excerpts:
    """The beginnings of the answers with the highest and the lowest gold score."""

    high: str
    low: str


def rubric_messages(
    question: str, context: str = "", excerpts: Excerpts | None = None
) -> list[Message]:
    """The two chat messages (system, user) that ask for a rubric for ``question``."""
    blocks = [f"CONTEXT:\n{context}\n"] if context else []
    if excerpts is not None:
        blocks.append(_EXCERPTS_INTRO)
        blocks.append(f"{HIGH_LABEL}\n{excerpts.high}\n")
        blocks.append(f"{LOW_LABEL}\n{excerpts.low}\n")
    blocks += [f"QUESTION:\n{question}\n", "YOUR RUBRIC:"]
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "\n".join(blocks)},
    ]


def contrastive_excerpts(answers: Sequence[str], gold: Sequence[float]) -> Excerpts | None:
    """Excerpts of the best and the worst answer, the first of each on ties.

    None when the gold scores do not match the answers or do not differ.
    """
    if len(answers) != len(gold) or len(set(gold)) < 2:
        return None
    best = answers[gold.index(max(gold))]
    worst = answers[gold.index(min(gold))]
    return Excerpts(best[:EXCERPT_CHARS], worst[:EXCERPT_CHARS])


def contrastive_enabled(env: Mapping[str, str]) -> bool:
    """Whether prompts carry excerpts: yes unless USE_CONTRASTIVE is set to anything but 1."""
    return env.get("USE_CONTRASTIVE", "1").strip() == "1"


_NAMES = "think|thinking|seed:think"
_TAG = re.compile(rf"<(?P<close>/?)(?:{_NAMES})>|\[(?P<square>/?)THINK\]", re.IGNORECASE)
"""``[THINK]`` is what Magistral writes."""


def without_thoughts(text: str) -> str:
    """The text after its last block of reasoning; a block that was cut off leaves nothing.

    If nothing follows the blocks, the text before the first one. A template may open the block in
    the prompt, so a text may begin inside one. A text without reasoning is returned unchanged.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    ends = [tag.end() for tag in tags if _closes(tag)]
    start = ends[-1] if ends else 0
    stop = next((tag.start() for tag in tags if tag.start() >= start), len(text))
    before = "" if _closes(tags[0]) else text[: tags[0].start()]
    return text[start:stop].strip() or before.strip()


def without_tags(text: str) -> str:
    """The text without the tags themselves."""
    return _TAG.sub("", text)


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["close"] or tag["square"])
