"""Check whether a cache of gold scores is fit to train on.

``signal_useful_pct`` is the percentage of questions whose gold scores distinguish the answers. If
it is below 90, check the judge before training.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from engine.base import jsonl
from engine.base.errors import UsageError, guarded, tell
from engine.data.cache import read_cache, record_id
from engine.data.program import run_program
from engine.tasks.rubrics import finite_scores

LOW_STD = 0.05
ENOUGH_PCT = 90.0
N_BINS = 10

Signal = Literal["other_scale", "parse_failure", "zero_variance", "low_variance", "good"]


@dataclass(frozen=True)
class SignalQuality:
    """Counts of questions by the quality of their gold scores; they sum to ``total``.

    ``histogram`` counts scores in ten bins from 0 to 1.
    """

    total: int
    other_scale: int
    parse_failures: int
    zero_variance: int
    low_variance: int
    good_signal: int
    signal_useful_pct: float
    score_mean: float
    score_std: float
    histogram: tuple[int, ...]


def classify(gold: Sequence[float]) -> Signal:
    """Classify one question's scores, which are expected between 0 and 1.

    All zeros come from a failed judge; below a standard deviation of 0.05 ranks are noise.
    """
    if any(abs(score) > 1 for score in gold):
        return "other_scale"
    if all(score == 0 for score in gold):
        return "parse_failure"
    spread = statistics.pstdev(gold)
    if spread == 0:
        return "zero_variance"
    return "low_variance" if spread < LOW_STD else "good"


def analyze(entries: Iterable[Sequence[float]]) -> SignalQuality:
    """Measure the gold scores of all questions."""
    golds = [list(gold) for gold in entries if gold]
    kinds = [classify(gold) for gold in golds]
    scores = [score for gold in golds for score in gold]
    bins = [min(N_BINS - 1, max(0, int(score * N_BINS))) for score in scores]
    return SignalQuality(
        total=len(golds),
        other_scale=kinds.count("other_scale"),
        parse_failures=kinds.count("parse_failure"),
        zero_variance=kinds.count("zero_variance"),
        low_variance=kinds.count("low_variance"),
        good_signal=kinds.count("good"),
        signal_useful_pct=100 * kinds.count("good") / len(golds) if golds else 0.0,
        score_mean=statistics.fmean(scores) if scores else 0.0,
        score_std=statistics.pstdev(scores) if scores else 0.0,
        histogram=tuple(bins.count(number) for number in range(N_BINS)),
    )


def analyze_cache(path: Path) -> SignalQuality:
    """Measure one cache file; UsageError when it is missing or empty."""
    if not path.is_file():
        raise UsageError(
            f"{path} does not exist; create it with python -P -m engine.data.precompute"
        )
    for note in read_cache(path).notes(()):
        tell(f"note: {note}")
    quality = analyze(_first_golds(path))
    if quality.total == 0:
        raise UsageError(f"{path} contains no usable gold scores")
    return quality


def _first_golds(path: Path) -> Iterator[Sequence[float]]:
    """Yield the first gold scores of each question, also of those without answers."""
    question_ids: set[str] = set()
    for record in jsonl.read(path):
        question_id, gold = record_id(record), finite_scores(record.get("gold_scores"))
        if question_id is not None and gold and question_id not in question_ids:
            question_ids.add(question_id)
            yield gold


@dataclass(frozen=True)
class _Options:
    cache: Annotated[Path, "Cache file of precompute (JSONL)", "CACHE"]
    as_json: Annotated[bool, "Print the result as JSON", "--json"] = False


def _run(options: _Options) -> int:
    quality = analyze_cache(options.cache)
    print(json.dumps(asdict(quality)) if options.as_json else _text(quality))
    return 0 if quality.signal_useful_pct >= ENOUGH_PCT else 1


def _text(quality: SignalQuality) -> str:
    scale = f"scale other than 0 to 1: {quality.other_scale}\n" if quality.other_scale else ""
    return (
        f"signal_useful_pct {quality.signal_useful_pct:.1f} "
        f"({quality.good_signal} of {quality.total} questions)\n"
        f"all zero (failed judge?) {quality.parse_failures}, zero std {quality.zero_variance}, "
        f"low std {quality.low_variance}\n"
        f"{scale}"
        f"scores: mean {quality.score_mean:.3f}, std {quality.score_std:.3f}, "
        f"histogram {' '.join(map(str, quality.histogram))}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 for enough useful signal, 1 for too little; UsageError for unusable input."""
    return run_program("engine.data.analyze", argv, _run)


if __name__ == "__main__":
    sys.exit(guarded(main))
