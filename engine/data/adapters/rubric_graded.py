"""Questions whose answers are graded with a rubric: HealthBench, the tiny demo, FrontierScience.

HealthBench has two files: ``oss_eval`` (one question per line) and ``meta_eval`` (completions, one
line per completion and criterion). The tiny demo uses the same layout.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.data.adapters.adapter import (
    Adapter,
    Example,
    Reader,
    distinct,
    examples_of,
    id_field,
    read_lines,
    read_rows_with,
    source_rows,
    text_field,
)
from engine.data.hub_source import HubSource
from engine.tasks.rubrics import RubricItem, format_rubric

_CLUSTER_TAG = "level:cluster"
_CONTEXT = (
    "A patient talks with an AI health assistant. Accuracy, completeness, safety, "
    "communication and instruction following matter."
)


def read_healthbench(context: str) -> Reader:
    """Read HealthBench's layout: all questions, sorted by id, with completions and ideal answers.

    With a file of completions, a question that has none there gets no answers at all: SFT trains
    on those, so GRPO must not.
    """

    def read(adapter: Adapter, path: Path | None, answers_path: Path | None) -> list[Example]:
        name = adapter.name
        completions = None if answers_path is None else read_completions(answers_path, name)

        def make_example(row: dict[str, Any], _: int) -> Example:
            question_id = id_field(row, "prompt_id")
            answers = () if completions is None else completions.get(question_id, ())
            if answers or completions is None:
                ideal = row.get("ideal_completions_data") or {}
                references = ideal.get("ideal_completions_ref_completions") or []
                texts = (ideal.get("ideal_completion"), *references)
                answers = (*answers, *(str(text or "") for text in texts))
            return Example(
                question_id=question_id,
                question=_conversation(row["prompt"]),
                context=context,
                golden_rubric=_golden_rubric(row["rubrics"]),
                answers=distinct(answers),
                category=str(row.get("category") or ""),
            )

        examples = examples_of(source_rows(path, adapter.hub, name), name, make_example)
        return sorted(examples, key=lambda example: example.question_id)

    return read


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
            fields = ", ".join(sorted(row)[:8])
            message = f"line {number} has no {error} (it has {fields})"
            raise UsageError(f"{name}: {path}: {message}") from error
        except ValueError as error:
            raise UsageError(f"{name}: {path}: line {number}: {error}") from error
    return {prompt_id: distinct(texts) for prompt_id, texts in grouped.items()}


def _conversation(turns: Any) -> str:
    if not isinstance(turns, list) or not turns:
        raise ValueError("prompt is not a list of messages")
    for turn in turns:
        if turn["content"] != "":
            text_field(turn, "content")
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _golden_rubric(criteria: list[dict[str, Any]]) -> str:
    """Format the criteria of the question; those of its cluster only if it has no other."""
    specific = [entry for entry in criteria if _CLUSTER_TAG not in entry.get("tags", [])]
    items = []
    for entry in specific or criteria:
        points = float(entry["points"])
        if not math.isfinite(points):
            raise ValueError(f"points are {points}")
        items.append(RubricItem(points, " ".join(text_field(entry, "criterion").split())))
    return format_rubric(items)


def _frontierscience_example(row: dict[str, Any], index: int) -> Example:
    """A row of ``test.jsonl``; its id is the line's index, as caches have it."""
    return Example(
        question_id=str(index),
        question=text_field(row, "problem"),
        context=f"A research question in {row.get('subject', 'science')}.",
        golden_rubric=text_field(row, "answer"),
        answers=distinct(row.get("answers") or ()),
        subject=str(row.get("subject") or ""),
    )


HEALTHBENCH = Adapter(
    name="healthbench",
    summary="health conversations with physician-written criteria",
    domain_type="open_rubric",
    hub=HubSource("openai/healthbench", data_file="2025-05-07-06-14-12_oss_eval.jsonl"),
    read=read_healthbench(_CONTEXT),
)
TINY = Adapter(
    name="tiny",
    summary="the generated tiny demo, in HealthBench's layout",
    domain_type="open_rubric",
    hub=None,
    read=read_healthbench("A person asks a health assistant for advice."),
)
FRONTIERSCIENCE = Adapter(
    name="frontierscience",
    summary="research problems with a rubric that sums to 10",
    domain_type="open_rubric",
    hub=None,
    read=read_rows_with(_frontierscience_example),
)
