"""The final answer in a response, whatever reasoning stands before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"\\f?boxed\s*\{|\\boxed\s+(?=\S)")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_MARKED = re.compile(
    r"(?:####|(?:\bfinal\s+)?\banswer\b\s*(?:is\b|:|=))[ \t]*(?:\n[ \t]*)?(\S[^\n]*)", re.IGNORECASE
)
_WRAPPING = re.compile(r"^[\s*_`\"'“”$:]+|[\s*_`\"'“”$]+$")
_LONGEST = 10_000
"""Characters at the end of a response in which its answer is looked for."""


@dataclass(frozen=True)
class FinalAnswer:
    """``is_marked``: whether the response says which part is the answer; otherwise it is the last
    line."""

    text: str
    is_marked: bool


def find_final_answer(response: str) -> FinalAnswer | None:
    """The answer in the last ``\\boxed{}``, ``<answer>``, ``####`` or ``answer is``; otherwise the
    last line. None for an empty response."""
    end = response[-_LONGEST:]
    for marked in (_boxed(end), _last(_TAGGED, end), _last(_MARKED, end)):
        if marked is not None:
            return FinalAnswer(strip_marks(marked), is_marked=True)
    lines = [line for line in end.splitlines() if line.strip()]
    return FinalAnswer(strip_marks(lines[-1]), is_marked=False) if lines else None


def strip_marks(text: str) -> str:
    """The text without quotes, emphasis and math signs around it, and without a final period."""
    text = _WRAPPING.sub("", text)
    # A period ends a sentence; ``5.`` as a number means the same as ``5``.
    return _WRAPPING.sub("", text.removesuffix("."))


def _boxed(text: str) -> str | None:
    """The content of the last box; None if it is never closed."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    if not boxes[-1][0].endswith("{"):
        return text[start:].split(maxsplit=1)[0].rstrip("$.")
    depth = 1
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start:index]
    return None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1] if found else None
