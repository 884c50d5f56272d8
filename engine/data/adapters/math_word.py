"""Mathematics with one checkable result. Wrong answers are made from the given solution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.adapters.base import (
    DomainType,
    Example,
    HubSource,
    UnusableRowError,
    distinct,
    examples_of,
    source_rows,
    text_field,
)

_TRUNCATED_SHARE = 0.6
_GSM8K_HUB = HubSource("openai/gsm8k", config="main")
_MATH_HUB = HubSource("hendrycks/competition_math")


@dataclass(frozen=True)
class GSM8K:
    """Grade-school problems; the result follows ``####``."""

    name: str = "gsm8k"
    domain_type: DomainType = "verifiable"
    hub: HubSource = _GSM8K_HUB

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        rows = source_rows(path, self.hub, self.name)
        return examples_of(rows, self.name, self._example)

    def _example(self, row: dict[str, Any], index: int) -> Example:
        text = text_field(row, "answer")
        solution, _, result = text.partition("####")
        return solved_example(
            question_id=f"{self.name}_{index}",
            question=text_field(row, "question"),
            context="A grade-school mathematics problem with one numeric answer.",
            solution=solution.strip(),
            result=result.strip(),
        )


@dataclass(frozen=True)
class Math:
    """Competition problems; the result is the last ``\\boxed{}``."""

    name: str = "math"
    domain_type: DomainType = "verifiable"
    hub: HubSource = _MATH_HUB

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        rows = source_rows(path, self.hub, self.name)
        return examples_of(rows, self.name, self._example)

    def _example(self, row: dict[str, Any], index: int) -> Example:
        solution = text_field(row, "solution")
        subject, level = str(row.get("type") or ""), str(row.get("level") or "")
        return solved_example(
            question_id=f"{self.name}_{index}",
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
    """A wrong final result, a solution cut at 60 % of its lines, and a bare wrong result.

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
