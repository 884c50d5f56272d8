"""Medical multiple-choice questions. The options are the answers; gold is 1 for the right one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.adapters.base import (
    DomainType,
    Example,
    HubSource,
    examples_of,
    source_rows,
    text_field,
)

_LETTERS = "ABCD"
_MEDQA_HUB = HubSource("GBaker/MedQA-USMLE-4-options")
_MEDMCQA_HUB = HubSource("openlifescienceai/medmcqa")


@dataclass(frozen=True)
class MedQA:
    """USMLE-style questions; ``options`` is an object, or that object as JSON text."""

    name: str = "medqa"
    domain_type: DomainType = "verifiable"
    hub: HubSource = _MEDQA_HUB

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        rows = source_rows(path, self.hub, self.name)
        return examples_of(rows, self.name, self._example)

    def _example(self, row: dict[str, Any], index: int) -> Example:
        given = row["options"]
        options = json.loads(given) if isinstance(given, str) else dict(given)
        right, answer = str(row["answer_idx"]), row.get("answer")
        if right in options and answer not in (None, options[right]):
            raise ValueError(f"answer is {answer!r}, but option {right} is {options[right]!r}")
        return choice_example(
            question_id=f"{self.name}_{index}",
            question=text_field(row, "question"),
            context="A USMLE-style medical question with one correct answer.",
            options=options,
            right=right,
        )


@dataclass(frozen=True)
class MedMCQA:
    """Indian medical entrance questions; ``cop`` counts from 0 (A) to 3 (D)."""

    name: str = "medmcqa"
    domain_type: DomainType = "verifiable"
    hub: HubSource = _MEDMCQA_HUB

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        rows = source_rows(path, self.hub, self.name)
        return examples_of(rows, self.name, self._example)

    def _example(self, row: dict[str, Any], index: int) -> Example:
        subject = str(row.get("subject_name") or "")
        return choice_example(
            question_id=f"{self.name}_{index}",
            question=text_field(row, "question"),
            context=f"A medical entrance question with one correct answer. {subject}".strip(),
            options={letter: row[f"op{letter.lower()}"] for letter in _LETTERS},
            right=_letter(row["cop"]),
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
    """An example whose answers are the options in letter order; the prompt never shows them.

    Options without a text are no answers, and those that repeat the right one are right, too.
    """
    texts = {letter: str(text) for letter, text in options.items() if text not in (None, "")}
    if right not in texts:
        known = ", ".join(sorted(texts))
        raise ValueError(f"the right answer '{right}' is not an option ({known})")
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


def _letter(cop: Any) -> str:
    if isinstance(cop, int) and 0 <= cop < len(_LETTERS):
        return _LETTERS[cop]
    raise ValueError(f"cop is {cop!r}; it must be 0, 1, 2 or 3")
