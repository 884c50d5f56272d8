"""Questions with one right answer: a number, a choice, a text or an expression in LaTeX.

Nothing slow is imported, because a process of its own loads the scorer; math-verify only for LaTeX,
and only where it is installed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any, Literal

from engine.tasks.rubrics import without_thoughts
from engine.tasks.task import Column, Example, RecordError, Task, Values, text_of

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BOXED = "Put your final answer in \\boxed{}."
_BOXED_CHOICE = "Answer with the letter of the right choice in \\boxed{}."


def _read(values: Values) -> Example:
    question, choices = _text(values, "question"), _choices(values.get("choices"))
    truth = _truth(_text(values, "answer"), choices)
    kind = values.get("kind") or ("choice" if choices else find_kind(truth))
    if kind not in KINDS:
        raise RecordError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    listed = [f"{letter}) {choice}" for letter, choice in zip(_LETTERS, choices, strict=False)]
    instruction = _BOXED_CHOICE if kind == "choice" else _BOXED
    content = "\n".join([question, *listed, "", instruction])
    return Example(({"role": "user", "content": content},), truth, {"kind": kind})


def _text(values: Values, name: str) -> str:
    value = values.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return str(int(value) if value == int(value) else value)
    return text_of(value, name).strip()


def _choices(value: Any) -> list[str]:
    """The choices in order: of a list, of a mapping from letters, or of ``{"text": [...]}``."""
    if isinstance(value, Mapping):
        texts = value.get("text")
        value = texts if isinstance(texts, Sequence) else [value[key] for key in sorted(value)]
    if value is None or isinstance(value, str):
        return []
    choices = [str(choice).strip() for choice in value]
    if not 2 <= len(choices) <= len(_LETTERS):
        raise RecordError(f"{len(choices)} choices; a question has 2 to {len(_LETTERS)}")
    return choices


def _truth(answer: str, choices: Sequence[str]) -> str:
    """The final answer of a worked solution; of choices, the letter."""
    marked = find_final_answer(answer)
    truth = marked.text if marked is not None and marked.is_marked else strip_marks(answer)
    if not truth:
        raise RecordError("the answer has no text")
    if not choices:
        return truth
    letters = _LETTERS[: len(choices)]
    if truth in choices:
        return letters[choices.index(truth)]
    if truth.isdecimal() and int(truth) < len(choices):
        return letters[int(truth)]
    letter = find_choice(truth)
    if letter is None or letter not in letters:
        raise RecordError(f"the answer {truth[:40]!r} is none of the {len(choices)} choices")
    return letter


def _find_limit(extra: Mapping[str, str]) -> str | None:
    if extra.get("kind") != "latex" or has_math_verify():
        return None
    return (
        "without math-verify, LaTeX is compared by its spelling: 1+x for x+1 scores 0 "
        "(pip install 'grubrics-tui[math]')"
    )


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
    box = _boxed(end)
    boxes = [] if box is None else [box]
    for marked in (boxes, _TAGGED.findall(end), _MARKED.findall(end)):
        if marked:
            return FinalAnswer(strip_marks(marked[-1]), is_marked=True)
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


_LONGEST_VALUE = 200
"""Characters of an answer that is read as a number; longer ones are texts."""

_LARGEST_EXPONENT = 300
_NUMBER = re.compile(
    r"""
    (?P<sign>[-+])?\s*
    (?:
      (?:(?P<whole>[0-9]+)\s*)?\\[dt]?frac\s*\{\s*(?P<top>-?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[0-9]+)\s*\}
    | (?:(?P<units>[0-9]+)\s+)?(?P<over>[0-9]+)\s*/\s*(?P<under>[0-9]+)
    | (?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)
      (?:(?:[eE]|\s*(?:\\times|\\cdot|[x*×])\s*10\s*\^\s*)\{?(?P<exponent>[-+]?[0-9]{1,4})\}?)?
    )
    """,
    re.VERBOSE,
)
_NOISE = re.compile(r"\\[,;! ]|\\left|\\right|\\\$|\s*\\(?:text|mathrm|mbox)\s*\{[^{}]*\}|[$€£¥]")
"""Marks around a number that do not change it: spacing, currency, units as text."""
_FORMULA = re.compile(r"[\\^_/*+<>](?!%)|\d")
"""What makes the text around a number part of an expression."""


def parse_number(text: str) -> Fraction | None:
    """The one number in ``text``; None for no number, or several.

    ``1,234``, ``-0.5``, ``3/4``, ``1 1/2``, ``\\frac{3}{4}``, ``2.5e3``, ``2 \\times 10^{3}``; with
    currency, a percent sign or a unit around it (``$5``, ``50%``, ``12 apples``). Only ASCII digits
    count, and ``2x`` is no number.
    """
    if len(text) > _LONGEST_VALUE:
        return None
    cleaned = _NOISE.sub(" ", text.replace("−", "-"))
    found = list(_NUMBER.finditer(cleaned))
    if len(found) != 1:
        return None
    before, after = cleaned[: found[0].start()], cleaned[found[0].end() :]
    is_part = before[-1:].isalpha() or after[:1].isalpha()
    if is_part or _FORMULA.search(before + after):
        return None
    return _value(found[0])


def find_last_number(text: str) -> Fraction | None:
    """Return the last number in ``text``, or None."""
    cleaned = _NOISE.sub(" ", text[-_LONGEST_VALUE:].replace("−", "-"))
    found = list(_NUMBER.finditer(cleaned))
    return _value(found[-1]) if found else None


def _value(number: re.Match[str]) -> Fraction | None:
    if number["decimal"] is not None:
        value = _decimal(number["decimal"], number["exponent"])
    elif number["top"] is not None:
        value = _mixed(number["whole"], number["top"], number["bottom"])
    else:
        value = _mixed(number["units"], number["over"], number["under"])
    return -value if value is not None and number["sign"] == "-" else value


def _decimal(digits: str, exponent: str | None) -> Fraction | None:
    power = int(exponent or 0)
    if abs(power) > _LARGEST_EXPONENT:
        return None
    return Fraction(digits.replace(",", "").rstrip(".") or "0") * Fraction(10) ** power


def _mixed(whole: str | None, top: str, bottom: str) -> Fraction | None:
    return None if int(bottom) == 0 else int(whole or 0) + Fraction(int(top), int(bottom))


def are_close(a: Fraction, b: Fraction, tolerance: float) -> bool:
    """Whether ``a`` is ``b``, up to ``tolerance`` times the larger of 1 and ``|b|``."""
    return a == b or abs(a - b) <= Fraction(tolerance) * max(Fraction(1), abs(b))


_SPACING = re.compile(r"\\[,;!: ]|\\quad|\\qquad|~|\s+|\\left|\\right|\\displaystyle|[$]|\\\(|\\\)")
_FRACTION = re.compile(r"\\[dt]frac")
_SHORT_FRACTION = re.compile(r"\\frac([0-9a-z])([0-9a-z])")
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\{([^{}]*)\}")
_DEGREES = re.compile(r"\^\{?\\circ\}?")
_COSTLY = re.compile(r"\^\s*\{?[^+=,]*(?:\^|[0-9]{4})|[0-9]{4}\s*!|!\s*!")
"""Towers of powers, large exponents and factorials: sympy computes their digits."""
_BRACES = re.compile(r"([\^_])\{([0-9A-Za-z])\}")


def are_equal(answer: str, truth: str, tolerance: float) -> bool:
    """Whether the expressions have one value or one spelling; without math-verify, ``x+1`` and
    ``1+x`` are not equal."""
    if normalize_latex(answer) == normalize_latex(truth) != "":
        return True
    value, wanted = parse_number(answer), parse_number(truth)
    if value is not None and wanted is not None:
        return are_close(value, wanted, tolerance)
    return has_math_verify() and _verify(answer, truth)


def normalize_latex(text: str) -> str:
    """The expression in one spelling: without spacing, ``\\dfrac`` as ``\\frac``, ``x^{2}`` as
    ``x^2``."""
    text = _SPACING.sub("", _TEXT.sub(r"\1", text))
    text = _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _FRACTION.sub(r"\\frac", text))
    return _BRACES.sub(r"\1\2", _DEGREES.sub("", text)).rstrip(".")


@cache
def has_math_verify() -> bool:
    """Whether ``pip install grubrics-tui[math]`` was."""
    return find_spec("math_verify") is not None


def _verify(answer: str, truth: str) -> bool:
    """Its own time limits use signals, which threads do not have: the caller's process has one."""
    from math_verify import parse, verify

    if len(answer) > _LONGEST_VALUE or (_COSTLY.search(answer) and not _COSTLY.search(truth)):
        return False
    gold = parse(f"${truth}$", parsing_timeout=None)
    parsed = parse(f"${answer}$", parsing_timeout=None)
    return bool(gold) and bool(verify(gold, parsed, timeout_seconds=None))


QUESTIONS = Task(
    name="questions",
    summary="questions with one right answer: a number, a choice, a text or LaTeX",
    scorer="engine.tasks.questions:compute_score",
    columns={
        "question": Column(("question", "prompt", "problem", "input", "query", "instruction")),
        "answer": Column(
            ("answer", "ground_truth", "solution", "output", "response", "target", "final_answer")
        ),
        "choices": Column(("choices", "options"), is_required=False),
        "kind": Column(("kind",), is_required=False),
    },
    read=_read,
    extra=("kind",),
    right_answer=lambda truth, _: f"\\boxed{{{truth}}}",
    find_limit=_find_limit,
    is_rate=lambda arguments: not arguments.get("marked_score"),
)
