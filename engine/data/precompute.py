"""Compute gold scores: the judge scores every answer with the gold rubric.

The cache is an append-only JSONL file with one question per line. A rerun skips cached questions. A
question that fails is reported and left out; it does not stop the others.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from engine.base import jsonl
from engine.base.errors import UsageError, guarded, tell, unknown_name
from engine.base.judge_providers import AZURE, OFFLINE, plugin_problems, provider_names
from engine.data.adapters import Example, all_adapters, get_adapter
from engine.data.cache import GoldCache, only_writer, read_cache
from engine.data.program import Answers, Dataset, at_least, run_program
from engine.reward.judge.interface import Judge
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.run.history.reward_records import ScoringError
from engine.tasks.rubrics import FEWEST_ANSWERS


@dataclass(frozen=True)
class PrecomputePlan:
    """How gold scores are made: ``num_evals`` independent judgments are averaged."""

    num_evals: Annotated[int, "Judgments averaged per answer", at_least(1)] = 3
    max_answers: Annotated[int, "Answers per question", at_least(FEWEST_ANSWERS)] = 6
    limit: Annotated[int, "Maximum number of questions to score; 0: all", at_least(0)] = 0
    max_concurrent: Annotated[int, "Concurrent calls", at_least(1)] = 10


@dataclass(frozen=True, kw_only=True)
class PrecomputeOptions(PrecomputePlan):
    dataset: Dataset
    dataset_path: Annotated[Path | None, "JSONL file (default: download from the hub)"] = None
    meta_eval_path: Answers = None
    output_cache: Annotated[Path | None, "Default: data/cache/DATASET_precompute.jsonl"] = None
    provider: Annotated[str, "Judge provider; unused for data sets with gold scores"] = AZURE.name
    model: Annotated[str | None, "Judge model (default: $JUDGE_MODEL, else gpt-4o-mini)"] = None
    base_url: Annotated[str | None, "Address of the judge (default: the provider's)"] = None
    timeout_s: Annotated[float, "Seconds per call"] = 300.0
    max_tokens: Annotated[int, "Tokens per reply", at_least(1)] = 16000


@dataclass(frozen=True)
class PrecomputeReport:
    """The result of a pass; ``failed`` maps question IDs to errors."""

    written: int
    already_cached: int
    too_few_answers: int
    failed: dict[str, ScoringError]


async def precompute(
    examples: Sequence[Example], judge: Judge, cache: Path, plan: PrecomputePlan
) -> PrecomputeReport:
    """Append gold scores for every example that is not in ``cache``, in order of question ID.

    UsageError while another process fills the same cache, and for records without a question ID:
    they may be of questions that would be paid for again.
    """
    cache.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(cache):
        cached = read_cache(cache)
        notes = cached.notes(examples)
        if cached.nameless:
            raise UsageError("; ".join(notes))
        for note in notes:
            tell(f"note: {note}")
        return await _fill(examples, judge, cached, cache, plan)


async def _fill(
    examples: Sequence[Example], judge: Judge, cached: GoldCache, cache: Path, plan: PrecomputePlan
) -> PrecomputeReport:
    missing = [example for example in examples if cached.find(example) is None]
    usable = [example for example in missing if len(example.answers) >= FEWEST_ANSWERS]
    todo = sorted(usable, key=lambda example: example.question_id)[: plan.limit or None]
    _end_torn_line(cache)
    gate = asyncio.Semaphore(plan.max_concurrent)
    flat = 0

    async def score(example: Example) -> ScoringError | None:
        nonlocal flat
        async with gate:
            gold = await _gold_scores(example, judge, plan)
        if isinstance(gold, ScoringError):
            tell(f"failed {example.question_id}: {gold.kind}: {gold.message}")
            return gold
        flat += len(set(gold)) == 1
        jsonl.append(cache, cache_record(example, gold))
        return None

    errors = await asyncio.gather(*(score(example) for example in todo))
    failed = {
        example.question_id: error
        for example, error in zip(todo, errors, strict=True)
        if error is not None
    }
    if flat:
        share = f"{flat} of {len(todo)} questions got the same score for all their answers"
        tell(f"note: {share}, so no ranking of them is rewarded")
    return PrecomputeReport(
        written=len(todo) - len(failed),
        already_cached=len(examples) - len(missing),
        too_few_answers=len(missing) - len(usable),
        failed=failed,
    )


def _end_torn_line(cache: Path) -> None:
    """End a line that a crash cut off, so that the next one is separate."""
    if cache.is_file() and (text := cache.read_bytes()) and not text.endswith(b"\n"):
        with cache.open("ab") as handle:
            handle.write(b"\n")


def cache_record(example: Example, gold: Sequence[float]) -> dict[str, Any]:
    """One line of the cache."""
    return {
        "question_id": example.question_id,
        "question": example.question,
        "golden_rubric": example.golden_rubric,
        "category": example.category,
        "subject": example.subject,
        "answers": list(example.answers[: len(gold)]),
        "gold_scores": list(gold),
    }


async def _gold_scores(
    example: Example, judge: Judge, plan: PrecomputePlan
) -> list[float] | ScoringError:
    if example.gold_scores:
        return list(example.gold_scores)
    if not example.golden_rubric.strip():
        return ScoringError("data", "the data set has no gold rubric")
    answers = example.answers[: plan.max_answers]
    runs: list[tuple[float, ...]] = []
    for _ in range(plan.num_evals):
        try:
            result = await judge.evaluate_answers_batched(
                example.question, answers, example.golden_rubric
            )
        except Exception as error:  # one broken question must not end the batch
            return ScoringError("other", f"{type(error).__name__}: {error}")
        if result.scores is None:
            return result.error or ScoringError("other", "the judge returned no scores")
        runs.append(result.scores)
    return [sum(scores) / len(runs) for scores in zip(*runs, strict=True)]


def _run(options: PrecomputeOptions) -> int:
    if not 0 < options.timeout_s < math.inf:
        raise UsageError(f"--timeout_s {options.timeout_s} must be finite and more than 0")
    if options.provider not in provider_names():
        raise unknown_name("--provider", options.provider, provider_names())
    adapter = get_adapter(options.dataset)
    cache = options.output_cache or Path(f"data/cache/{adapter.name}_precompute.jsonl")
    if cache.exists() and not cache.is_file():
        raise UsageError(f"--output_cache {cache} is not a regular file")
    for problem in plugin_problems():
        tell(f"note: {problem}")
    examples = adapter.load(options.dataset_path, options.meta_eval_path)
    report = asyncio.run(_with_judge(examples, cache, options))
    print(
        f"[precompute] {report.written} written, {report.already_cached} already cached, "
        f"{report.too_few_answers} with fewer than 2 answers, {len(report.failed)} failed "
        f"-> {cache}"
    )
    return 1 if report.failed else 0


async def _with_judge(
    examples: Sequence[Example], cache: Path, options: PrecomputeOptions
) -> PrecomputeReport:
    # Data sets that contain the right answers use no judge and need no credentials.
    is_known = all(example.gold_scores for example in examples)
    settings = JudgeSettings(
        provider=OFFLINE.name if is_known else options.provider,
        model=options.model or os.environ.get("JUDGE_MODEL", "gpt-4o-mini"),
        base_url=options.base_url,
        max_concurrent=options.max_concurrent,
        timeout_s=options.timeout_s,
        max_tokens=options.max_tokens,
    )
    judge = make_judge(settings, None, os.environ)
    try:
        return await precompute(examples, judge, cache, options)
    finally:
        await judge.aclose()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when every question is cached, 1 when some failed; UsageError for unusable input."""
    adapters, problems = all_adapters()  # The problems are those of plugins that were skipped.
    names = ", ".join(f"{adapter.name} ({adapter.summary})" for adapter in adapters.values())
    data_sets = "; ".join((f"Data sets: {names}", *problems))
    return run_program("engine.data.precompute", argv, _run, epilog=data_sets)


if __name__ == "__main__":
    sys.exit(guarded(main))
