"""From examples and their cached gold scores to rows of the parquet contract."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.data.contract import Row
from engine.rubrics.adapters import DomainType, Example
from engine.rubrics.prompts import contrastive_excerpts, rubric_messages


@dataclass(frozen=True)
class RowOptions:
    """What a row depends on beside its example."""

    split: str = "train"
    use_contrastive: bool = True


def read_cache(path: Path | None) -> dict[str, dict[str, Any]]:
    """Cached gold scores by question id; the first record of an id counts. Missing = empty."""
    cache: dict[str, dict[str, Any]] = {}
    for record in jsonl.read(path) if path is not None else ():
        cache.setdefault(str(record.get("question_id", record.get("prompt_id"))), record)
    return cache


def with_cached_gold(
    examples: Iterable[Example], cache: Mapping[str, Mapping[str, Any]]
) -> list[Example]:
    """Examples whose answers and gold scores are those of the cache, where it has them."""
    return [_merged(example, cache.get(example.question_id)) for example in examples]


def has_gold(example: Example) -> bool:
    """Whether every answer of the example has a gold score, and there is an answer."""
    return bool(example.answers) and len(example.answers) == len(example.gold_scores)


def discriminates(example: Example) -> bool:
    """Whether the gold scores differ: constant gold rewards no ranking, only the info bonus."""
    return len(set(example.gold_scores)) > 1


def to_row(example: Example, source: str, domain: DomainType, options: RowOptions) -> Row:
    """One row of the contract; ``index`` is set when the file is written."""
    excerpts = (
        contrastive_excerpts(example.answers, example.gold_scores)
        if options.use_contrastive
        else None
    )
    kind = "verifiable" if domain == "verifiable" else "open"
    return {
        "data_source": source,
        "prompt": rubric_messages(example.question, example.context, excerpts),
        "reward_model": {
            "ground_truth": example.ground_truth,
            "style": f"rubric_for_{kind}",
        },
        "extra_info": {
            "split": options.split,
            "domain_type": domain,
            "question_id": example.question_id,
            "question": example.question,
            "golden_rubric": example.golden_rubric,
            "answers": list(example.answers),
            "gold_scores": list(example.gold_scores),
            "category": example.category,
            "subject": example.subject,
        },
    }


def _merged(example: Example, record: Mapping[str, Any] | None) -> Example:
    if record is None:
        return example
    return replace(
        example,
        answers=tuple(record.get("answers") or ()),
        gold_scores=_finite(record.get("gold_scores")),
    )


def _finite(scores: Any) -> tuple[float, ...]:
    """The scores, or none of them when any is missing: a gap must not become a zero."""
    listed = scores if isinstance(scores, list) else []
    sound = all(isinstance(score, int | float) and math.isfinite(score) for score in listed)
    return tuple(float(score) for score in listed) if sound else ()
