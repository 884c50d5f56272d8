"""Rubrics as text: one item per line, ``Points: <number>, Item: <text>``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
"""The sum that ``engine.rubrics.prompts.SYSTEM`` asks for."""
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
    return tuple(item for points, parts in parsed if (item := _joined(points, parts)).criterion)


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
    match = _FORWARD.match(line) or _REVERSED.match(line)
    if match is not None:
        return _value(match["points"]), match["text"]
    alone = _POINTS_ALONE.match(line)
    return (_value(alone["points"]), "") if alone is not None else None


def _joined(points: float, parts: list[str]) -> RubricItem:
    return RubricItem(points, " ".join(" ".join(parts).split()))


def _value(number: str) -> float:
    return float(number.replace("\u2212", "-"))


def _plain(points: float) -> str:
    return str(int(points)) if points == int(points) else f"{points:f}".rstrip("0").rstrip(".")
