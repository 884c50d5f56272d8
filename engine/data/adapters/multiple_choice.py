"""Medical multiple-choice questions. The options are the answers; gold is 1 for the right one."""

from __future__ import annotations

import json
from typing import Any

from engine.data.adapters.adapter import (
    Adapter,
    Example,
    read_rows_with,
    text_field,
)
from engine.data.hub_source import HubSource

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
