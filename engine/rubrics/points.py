"""The points of a rubric, scaled to the sum that its prompt asks for.

A scale changes no score: a judge divides by the sum of the positive points.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.rubrics.rubric import format_rubric, parse_rubric

WANTED_SUM = 10.0
"""What ``engine.rubrics.prompts.SYSTEM`` asks for."""
_STEPS = (10, 100, 1000)
"""Parts of a point that points are rounded to, the coarsest first."""


def has_wanted_sum(text: str) -> bool:
    """Whether the points sum to 10; also a text that holds no points at all."""
    items = parse_rubric(text)
    return not items or math.isclose(sum(item.points for item in items), WANTED_SUM, abs_tol=1e-6)


def scaled_to_sum(text: str) -> str | None:
    """The rubric with its points in the same proportions and of the sum 10.

    Unchanged when they sum to that already. None when their sum is 0 or less, which no scale
    mends. Points are rounded to tenths, or finer where an item would lose its own, and what is
    left over goes to the largest item.
    """
    if has_wanted_sum(text):
        return text
    items = parse_rubric(text)
    total = sum(item.points for item in items)
    if total <= 0:
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
