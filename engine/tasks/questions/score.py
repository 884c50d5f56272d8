"""Score the answer to a question: a number, a choice, a text or an expression in LaTeX.

The contract is that of verl's ``compute_score``. Nothing slow is imported, because a process of its
own loads this; math-verify only for LaTeX, and only where it is installed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

from engine.rubrics import without_thoughts
from engine.tasks.questions.answers import find_final_answer, strip_marks
from engine.tasks.questions.latex import are_equal
from engine.tasks.questions.values import are_close, find_last_number, parse_number

AnswerKind = Literal["number", "choice", "text", "latex"]
KINDS: tuple[AnswerKind, ...] = ("number", "choice", "text", "latex")
TOLERANCE = 1e-6

_CHOICE = re.compile(r"^\W*(?:\\text\s*\{)?\W*([A-Z])(?:\W*$|\s*[).:\]}]|\s+[-–—]\s)")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    kind: str | None = None,
    tolerance: float = TOLERANCE,
    marked_score: float = 0.0,
) -> dict[str, float]:
    """1 for the right answer, otherwise 0.

    ``kind``: by default that of the row (``extra_info.kind``), or else of the ground truth.
    ``tolerance`` is relative to numbers above 1. ``marked_score`` is for a wrong answer that is
    marked as the answer; ``marked`` is 1 where the response says which part that is.
    """
    kind = kind or (extra_info or {}).get("kind") or find_kind(ground_truth)
    answer = find_final_answer(without_thoughts(solution_str))
    if answer is None:
        return {"score": 0.0, "marked": 0.0}
    right = is_right(answer.text, ground_truth, kind, tolerance, is_marked=answer.is_marked)
    wrong_score = marked_score if answer.is_marked else 0.0
    return {"score": 1.0 if right else wrong_score, "marked": float(answer.is_marked)}


def find_kind(truth: str) -> AnswerKind:
    """The kind of answer that a ground truth is."""
    truth = strip_marks(truth)
    if parse_number(truth) is not None:
        return "number"
    if re.fullmatch(r"\(?[A-J]\)?", truth):
        return "choice"
    return "latex" if "\\" in truth or re.search(r"[\^_]", truth) else "text"


def is_right(
    answer: str, truth: str, kind: str, tolerance: float = TOLERANCE, *, is_marked: bool = True
) -> bool:
    """Whether ``answer`` means the same as ``truth``. ValueError for an unknown kind.

    Of an answer that is not marked, the last number counts; a marked one must be one number.
    """
    if kind == "number":
        value, wanted = parse_number(answer), parse_number(strip_marks(truth))
        if value is None and not is_marked:
            value = find_last_number(answer)
        return value is not None and wanted is not None and are_close(value, wanted, tolerance)
    if kind == "choice":
        letter = find_choice(answer)
        return letter is not None and letter == find_choice(truth)
    if kind == "text":
        wanted_text = normalize(truth)
        return bool(wanted_text) and normalize(answer) == wanted_text
    if kind == "latex":
        return are_equal(answer, truth, tolerance)
    raise ValueError(f"kind {kind!r} of an answer is not one of {', '.join(KINDS)}")


def find_choice(text: str) -> str | None:
    """The letter of ``B``, ``(B)``, ``B. Paris``; None for a text that begins otherwise."""
    found = _CHOICE.match(strip_marks(text))
    return found[1] if found else None


def normalize(text: str) -> str:
    """The text without case, accents' forms, white space around words, and quotes."""
    return " ".join(unicodedata.normalize("NFC", strip_marks(text)).casefold().split())
