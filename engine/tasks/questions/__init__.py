"""Questions with one right answer: a number, a choice, a text or an expression in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from engine.tasks.questions.answers import find_final_answer, strip_marks
from engine.tasks.questions.latex import has_math_verify
from engine.tasks.questions.score import KINDS, find_choice, find_kind
from engine.tasks.task import Column, Example, RecordError, Task, Values

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
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f"the {name} is {'empty' if value in (None, '') else 'not text'}")
    return value.strip()


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


QUESTIONS = Task(
    name="questions",
    summary="questions with one right answer: a number, a choice, a text or LaTeX",
    scorer="engine.tasks.questions.score:compute_score",
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
