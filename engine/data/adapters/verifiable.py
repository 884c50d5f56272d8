"""Mathematics with one checkable result. Wrong answers are made from the given solution."""

from __future__ import annotations

import json
import re
from typing import Any

from engine.data.adapters.adapter import (
    Adapter,
    Example,
    UnusableRowError,
    distinct,
    read_rows_with,
    text_field,
)
from engine.data.hub_source import HubSource

_TRUNCATED_SHARE = 0.6


def _gsm8k_example(row: dict[str, Any], index: int) -> Example:
    solution, _, result = text_field(row, "answer").partition("####")
    return solved_example(
        question_id=f"gsm8k_{index}",
        question=text_field(row, "question"),
        context="A grade-school mathematics problem with one numeric answer.",
        solution=solution.strip(),
        result=result.strip(),
    )


def _math_example(row: dict[str, Any], index: int) -> Example:
    solution = text_field(row, "solution")
    subject, level = str(row.get("type") or ""), str(row.get("level") or "")
    return solved_example(
        question_id=f"math_{index}",
        question=text_field(row, "problem"),
        context=f"A competition mathematics problem. {subject} {level}".strip(),
        solution=solution,
        result=last_boxed(solution),
        subject=subject,
    )


def solved_example(
    question_id: str,
    question: str,
    context: str,
    solution: str,
    result: str,
    subject: str = "",
) -> Example:
    """The right solution (gold 1) beside distinct wrong or unfinished variants (gold 0).

    UnusableRowError without a ``result``: the right solution would name none either.
    """
    if not result:
        raise UnusableRowError("no final result")
    right = f"{solution}\nFinal answer: {result}"
    variants = distinct((right, *wrong_variants(solution, result)))
    return Example(
        question_id=question_id,
        question=question,
        context=context,
        answers=variants,
        gold_scores=tuple(1.0 if variant == right else 0.0 for variant in variants),
        ground_truth=result,
        subject=subject,
    )


def wrong_variants(solution: str, result: str) -> tuple[str, ...]:
    """A wrong final result, a solution cut at 60% of its lines, and a bare wrong result.

    Only the final line is altered: digits inside the reasoning stay as they are.
    """
    lines = solution.splitlines()
    cut = "\n".join(lines[: int(len(lines) * _TRUNCATED_SHARE)])
    return (
        f"{solution}\nFinal answer: {_other_result(result, 1)}",
        f"{cut}\nThe rest follows in the same way.".strip(),
        f"Final answer: {_other_result(result, 10)}",
    )


def last_boxed(solution: str) -> str:
    """The content of the last ``\\boxed{...}`` with its braces balanced; empty without one."""
    start = solution.rfind(r"\boxed{")
    if start < 0:
        return ""
    body = solution[start + len(r"\boxed{") :]
    depth = 1
    for position, character in enumerate(body):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return body[:position]
    return ""


def _other_result(result: str, step: int) -> str:
    number = result.replace(",", "")
    if re.fullmatch(r"-?\d+", number):
        return str(int(number) + step)
    return f"{result} + {step}"


GSM8K = Adapter(
    name="gsm8k",
    summary="grade-school problems; the result follows ####",
    domain_type="verifiable",
    hub=HubSource("openai/gsm8k", config="main"),
    read=read_rows_with(_gsm8k_example),
)
MATH = Adapter(
    name="math",
    summary="competition problems; the result is the last \\boxed{}",
    domain_type="verifiable",
    hub=HubSource("hendrycks/competition_math"),
    read=read_rows_with(_math_example),
)


_LETTERS = "ABCD"


def _medqa_example(row: dict[str, Any], index: int) -> Example:
    """``options`` is an object, or that object as JSON text."""
    options = row["options"]
    options = json.loads(options) if isinstance(options, str) else dict(options)
    right, answer = str(row["answer_idx"]), row.get("answer")
    if right in options and answer not in (None, options[right]):
        raise ValueError(f"answer is {answer!r}, but option {right} is {options[right]!r}")
    return choice_example(
        question_id=f"medqa_{index}",
        question=text_field(row, "question"),
        context="A USMLE-style medical question with one correct answer.",
        options=options,
        right=right,
    )


def _medmcqa_example(row: dict[str, Any], index: int) -> Example:
    """``cop`` counts from 0 (A) to 3 (D)."""
    option, subject = row["cop"], str(row.get("subject_name") or "")
    if not isinstance(option, int) or not 0 <= option < len(_LETTERS):
        raise ValueError(f"cop is {option!r}; it must be 0, 1, 2 or 3")
    return choice_example(
        question_id=f"medmcqa_{index}",
        question=text_field(row, "question"),
        context=f"A medical entrance question with one correct answer. {subject}".strip(),
        options={letter: row[f"op{letter.lower()}"] for letter in _LETTERS},
        right=_LETTERS[option],
        subject=subject,
    )


def choice_example(
    question_id: str,
    question: str,
    context: str,
    options: dict[str, Any],
    right: str,
    subject: str = "",
) -> Example:
    """Return an example whose answers are the options in letter order; no prompt shows them.

    Options without text are left out; those that repeat the right one are also right.
    """
    texts = {letter: str(text) for letter, text in options.items() if text not in (None, "")}
    if right not in texts:
        present = ", ".join(sorted(texts))
        raise ValueError(f"the right answer '{right}' is not an option ({present})")
    letters = sorted(texts)
    plain = {letter: " ".join(text.split()) for letter, text in texts.items()}
    return Example(
        question_id=question_id,
        question=question,
        context=context,
        answers=tuple(f"{letter}. {texts[letter]}" for letter in letters),
        gold_scores=tuple(1.0 if plain[letter] == plain[right] else 0.0 for letter in letters),
        ground_truth=texts[right],
        subject=subject,
    )


MEDQA = Adapter(
    name="medqa",
    summary="USMLE-style questions with one right option",
    domain_type="verifiable",
    hub=HubSource("GBaker/MedQA-USMLE-4-options"),
    read=read_rows_with(_medqa_example),
)
MEDMCQA = Adapter(
    name="medmcqa",
    summary="Indian medical entrance questions with one right option",
    domain_type="verifiable",
    hub=HubSource("openlifescienceai/medmcqa"),
    read=read_rows_with(_medmcqa_example),
)
