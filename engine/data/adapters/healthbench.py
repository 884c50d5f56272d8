"""HealthBench: conversations, physician-written criteria, and completions to grade.

Two files: ``oss_eval`` (one question per line) and ``meta_eval`` (completions, one line per
completion and criterion). The tiny world uses the same format.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.data.adapters.base import (
    DomainType,
    Example,
    HubSource,
    distinct,
    examples_of,
    id_field,
    read_lines,
    source_rows,
    text_field,
)
from engine.rubrics.rubric import RubricItem, format_rubric

_CLUSTER_TAG = "level:cluster"
_CONTEXT = (
    "A patient talks with an AI health assistant. Accuracy, completeness, safety, "
    "communication and instruction following matter."
)
_HUB = HubSource("openai/healthbench", data_file="2025-05-07-06-14-12_oss_eval.jsonl")


@dataclass(frozen=True)
class HealthBench:
    """Reads HealthBench's own layout, whichever dataset it holds."""

    name: str = "healthbench"
    domain_type: DomainType = "open_rubric"
    context: str = _CONTEXT
    hub: HubSource | None = _HUB

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        """All questions, sorted by id, with their completions and the ideal answers.

        With an ``answers_path``, a question it lacks keeps no answers: SFT trains on those, so
        GRPO must not.
        """
        completions = None if answers_path is None else read_completions(answers_path, self.name)
        rows = source_rows(path, self.hub, self.name)

        def example(row: dict[str, Any], _: int) -> Example:
            name = id_field(row, "prompt_id")
            own = () if completions is None else completions.get(name, ())
            ideals = _ideal_answers(row) if own or completions is None else []
            return Example(
                question_id=name,
                question=_conversation(row["prompt"]),
                context=self.context,
                golden_rubric=_golden_rubric(row["rubrics"]),
                answers=distinct((*own, *ideals)),
                category=str(row.get("category") or ""),
            )

        examples = examples_of(rows, self.name, example)
        return sorted(examples, key=lambda each: each.question_id)


def read_completions(path: Path | None, name: str) -> dict[str, tuple[str, ...]]:
    """Distinct completions per prompt id, in file order; empty when ``path`` is None."""
    if path is None:
        return {}
    if not path.is_file():
        raise UsageError(f"{name}: {path} does not exist")
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for number, row in enumerate(read_lines(path, name), start=1):
        try:
            completion = text_field(row, "completion") if row["completion"] else ""
            grouped[id_field(row, "prompt_id")].append(completion)
        except KeyError as error:
            known = ", ".join(sorted(row)[:8])
            message = f"line {number} has no {error} (it has {known})"
            raise UsageError(f"{name}: {path}: {message}") from error
        except ValueError as error:
            raise UsageError(f"{name}: {path}: line {number}: {error}") from error
    return {prompt_id: distinct(texts) for prompt_id, texts in grouped.items()}


def _conversation(turns: Any) -> str:
    if not isinstance(turns, list) or not turns:
        raise ValueError("prompt is no list of messages")
    for turn in turns:
        if turn["content"] != "":
            text_field(turn, "content")
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _golden_rubric(criteria: list[dict[str, Any]]) -> str:
    own = [entry for entry in criteria if _CLUSTER_TAG not in entry.get("tags", [])]
    items = [
        RubricItem(_points(entry), " ".join(text_field(entry, "criterion").split()))
        for entry in own or criteria
    ]
    return format_rubric(items)


def _points(entry: dict[str, Any]) -> float:
    points = float(entry["points"])
    if not math.isfinite(points):
        raise ValueError(f"points are {points}")
    return points


def _ideal_answers(row: dict[str, Any]) -> list[str]:
    ideal = row.get("ideal_completions_data") or {}
    references = ideal.get("ideal_completions_ref_completions") or []
    return [str(text or "") for text in (ideal.get("ideal_completion"), *references)]
