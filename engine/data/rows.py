"""Turn examples and their cached gold scores into rows of the parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.data.adapters import DomainType, Example
from engine.data.cache import GoldCache
from engine.data.contract import Row
from engine.rubrics import contrastive_excerpts, finite_scores, gold_problem, rubric_messages


@dataclass(frozen=True)
class RowOptions:
    """The inputs of a row besides its example."""

    split: str = "train"
    use_contrastive: bool = True


def with_cached_gold(examples: Iterable[Example], cache: GoldCache) -> list[Example]:
    """Return the examples with the answers and gold scores that the cache has for them."""
    return [
        example
        if (record := cache.find(example)) is None
        else replace(
            example,
            answers=tuple(record["answers"]),
            gold_scores=finite_scores(record["gold_scores"]),
        )
        for example in examples
    ]


def has_gold(example: Example) -> bool:
    """Whether the example's gold scores can be trained on."""
    return gold_problem(example.answers, example.gold_scores) is None


def discriminates(example: Example) -> bool:
    """Whether the gold scores differ: constant gold scores reward no ranking."""
    return len(set(example.gold_scores)) > 1


def to_row(example: Example, source: str, domain: DomainType, options: RowOptions) -> Row:
    """A row of the parquet file; ``index`` is set when the file is written."""
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
