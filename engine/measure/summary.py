"""From the lines of an evaluation to means, intervals and verdicts. Nothing else goes in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.intervals import (
    Estimate,
    best_of_k,
    estimate_clustered_mean,
    estimate_rate,
    pass_at_k,
)
from engine.base.paired_comparison import Comparison, adjust_for_many, compare_paired
from engine.measure.folder import LOSS, AnswerRow, Key, ScoreRow, TargetDir, read_target
from engine.measure.measures import Metric, metrics_of
from engine.measure.targets import TEXTS, Target


@dataclass(frozen=True)
class TargetRows:
    """All lines of one target."""

    name: str
    answers: Mapping[Key, AnswerRow]
    scores: Mapping[Key, ScoreRow]

    @classmethod
    def read(cls, name: str, folder: TargetDir) -> TargetRows:
        return cls(name, folder.read_answers(), folder.read_scores())

    def values(self, metric: Metric) -> dict[Key, float]:
        """The metric of every scored answer."""
        found = ((key, metric.value(row)) for key, row in sorted(self._answered.items()))
        return {key: value for key, value in found if value is not None}

    @property
    def unscored(self) -> list[Key]:
        """Answers without a score, and prompts without an answer."""
        scored = {key for key, row in self._answered.items() if row.is_scored}
        return [key for key in self.answers if key not in scored]

    @property
    def why_unscored(self) -> str | None:
        """The most frequent error of the unscored answers."""
        rows = [(self.answers[key], self.scores.get(key)) for key in self.unscored]
        errors = Counter((score.error if score else None) or answer.error for answer, score in rows)
        return next((error for error, _ in errors.most_common() if error), None)

    def clusters(self, uids: Iterable[str]) -> list[str]:
        """The prompt of each item: items that repeat a prompt are not independent."""
        prompts = {uid: row.prompt_sha256 for (uid, _), row in self.answers.items()}
        return [prompts[uid] or uid for uid in uids]

    @property
    def _answered(self) -> dict[Key, ScoreRow]:
        return {key: row for key, row in self.scores.items() if key in self.answers}


@dataclass(frozen=True)
class Result:
    """A metric of one target. ``if_wrong``: the estimate if every unscored answer were wrong;
    None where it is not known what a wrong answer scores."""

    target: str
    metric: str
    estimate: Estimate | None
    unscored: int
    if_wrong: Estimate | None
    why_unscored: str | None = None
    left_out: int = 0
    """Items with fewer scores than best@K needs."""

    def to_json(self) -> dict[str, Any]:
        estimate = self.estimate
        return {
            "target": self.target,
            "metric": self.metric,
            "mean": estimate.mean if estimate else None,
            "ci": estimate and estimate.interval,
            "n": estimate.n if estimate else 0,
            "items": estimate.units if estimate else 0,
            "unscored": self.unscored,
            "mean_if_unscored_wrong": self.if_wrong.mean if self.if_wrong else None,
            "ci_if_unscored_wrong": self.if_wrong and self.if_wrong.interval,
            "why_unscored": self.why_unscored,
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class TargetComparison:
    """b compared with a. ``left_out``: items that one of the two has no score for."""

    a: str
    b: str
    metric: str
    comparison: Comparison
    left_out: int

    def to_json(self) -> dict[str, Any]:
        comparison = self.comparison
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            "difference": comparison.difference.mean,
            "ci": comparison.difference.interval,
            "paired": comparison.paired,
            "n": comparison.difference.n,
            "left_out": self.left_out,
            "p": comparison.p,
            "verdict": comparison.verdict,
            "needed": comparison.needed,
        }


def measure_targets(
    targets: Sequence[tuple[Target, TargetDir]], scoring: Mapping[str, Any], samples: int
) -> tuple[list[TargetRows], list[Metric], list[Result]]:
    """The rows of the targets of an evaluation, its metrics, and the results."""
    rows = [TargetRows.read(target.name, folder) for target, folder in targets]
    metrics = [settle_scale(metric, rows) for metric in metrics_of(scoring)]
    results = [
        result
        for (target, _), of_target in zip(targets, rows, strict=True)
        for result in find_results(of_target, metrics, samples_of(target, samples))
    ]
    return rows, metrics, results


def samples_of(target: Target, samples: int) -> int:
    """Answers per item. A text that no model wrote is the same in every sample."""
    if target.form == "evaluation":
        target = read_target(Path(target.source) / "target.json") or target
    return 1 if target.form in TEXTS else samples


def find_results(target: TargetRows, metrics: Sequence[Metric], samples: int = 1) -> list[Result]:
    """The metrics of a target with ``samples`` answers per item. The samples of an item are one
    cluster; with several, also best of ``samples`` and, for a rate, pass@k. A loss
    also has the mean over all tokens, as trainers log it."""
    results = [_result(target, metric) for metric in metrics]
    if metrics[0].name == LOSS:
        results.append(_token_mean(target, metrics[0]))
    return [*results, *_at_k(target, metrics[0], samples)]


def settle_scale(metric: Metric, targets: Iterable[TargetRows]) -> Metric:
    """Decide whether undeclared scores are a rate: if 0 and 1 both occur, and nothing else does.

    Scores that are all equal show no range, so they are no rate. Scores from 0 to a 1 that occurs
    are shares: no interval of theirs ends beyond.
    """
    if metric.scale != "undeclared":
        return metric
    scores = {value for target in targets for value in target.values(metric).values()}
    if scores == {0.0, 1.0}:
        return replace(metric, scale="rate")
    is_share = 1.0 in scores and all(0.0 <= score <= 1.0 for score in scores)
    return replace(metric, scale="graded", bounds=(0.0, 1.0) if is_share else None)


def compare_targets(
    baselines: Sequence[TargetRows], targets: Sequence[TargetRows], metrics: Sequence[Metric]
) -> list[TargetComparison]:
    """Every target against every baseline, by item. The p values of the targets that share a
    baseline and a metric are adjusted (Holm). UsageError where the items differ."""
    comparisons: list[TargetComparison] = []
    for baseline in baselines:
        others = [target for target in targets if target.name != baseline.name]
        for metric in metrics:
            pairs = [_compare(baseline, target, metric) for target in others]
            known = [pair for pair in pairs if pair is not None]
            adjusted = adjust_for_many(
                [pair.comparison for pair in known], lower_is_better=metric.lower_is_better
            )
            comparisons += [
                replace(pair, comparison=comparison)
                for pair, comparison in zip(known, adjusted, strict=True)
            ]
    return comparisons


def require_same_items(a: TargetRows, b: TargetRows) -> None:
    """UsageError that names the first item that one side lacks, or that differs."""
    left, right = _items(a), _items(b)
    for uid in sorted(left.keys() | right.keys()):
        if uid not in left or uid not in right:
            has, lacks = (a, b) if uid in left else (b, a)
            raise UsageError(f"item '{uid}' is in {has.name} and not in {lacks.name}")
        if left[uid] != right[uid]:
            raise UsageError(f"item '{uid}' differs between {a.name} and {b.name}")


def _result(target: TargetRows, metric: Metric) -> Result:
    values = target.values(metric)
    estimate = _estimate(target, values, metric) if values else None
    if_wrong, worst = None, metric.worst
    if worst is not None and min(values.values(), default=worst) >= worst:
        every = {**values, **dict.fromkeys(target.unscored, worst)}
        if_wrong = _estimate(target, every, metric) if every else None
    why = target.why_unscored if target.unscored else None
    return Result(target.name, metric.name, estimate, len(target.unscored), if_wrong, why)


def _estimate(target: TargetRows, values: Mapping[Key, float], metric: Metric) -> Estimate:
    """The mean of values by item and sample; the values of one prompt are one cluster.

    A rate with one score per prompt has Wilson's interval, which has a width even if all scores are
    equal. If several per prompt are all equal, each prompt counts once. Other intervals end at the
    bounds of the metric.
    """
    numbers = [*values.values()]
    estimate = estimate_clustered_mean(numbers, target.clusters(uid for uid, _ in values))
    if metric.scale != "rate" or not all(number in (0.0, 1.0) for number in numbers):
        return _bounded(estimate, metric)
    if estimate.units == len(numbers):
        return estimate_rate(round(sum(numbers)), len(numbers))
    if len(set(numbers)) == 1:
        rate = estimate_rate(round(numbers[0]) * estimate.units, estimate.units)
        return replace(rate, n=len(numbers))
    return _bounded(estimate, metric)


def _bounded(estimate: Estimate, metric: Metric) -> Estimate:
    bounds = (0.0, 1.0) if metric.scale == "rate" else metric.bounds
    if bounds is None or estimate.low is None or estimate.high is None:
        return estimate
    least, most = bounds
    return replace(estimate, low=max(least, estimate.low), high=min(most, estimate.high))


def _token_mean(target: TargetRows, metric: Metric) -> Result:
    """The mean of the losses, each weighted with its tokens."""
    losses = target.values(metric)
    clusters = target.clusters(uid for uid, _ in losses)
    tokens = [target.answers[key].tokens for key in losses]
    estimate = None
    if losses:
        estimate = estimate_clustered_mean([*losses.values()], clusters, weights=tokens)
    return Result(target.name, f"{LOSS}_per_token", estimate, len(target.unscored), None)


def _require_same_tokens(a: TargetRows, b: TargetRows, uids: Iterable[str]) -> None:
    for uid in uids:
        counts = [target.answers[uid, 0].tokens for target in (a, b)]
        if counts[0] != counts[1]:
            raise UsageError(
                f"item '{uid}' has {counts[0]} response tokens for {a.name} and {counts[1]} for "
                f"{b.name}: losses of different tokenizers cannot be compared"
            )


def _at_k(target: TargetRows, metric: Metric, k: int) -> Iterator[Result]:
    """best@k and pass@k of the items with all k scores; the others are left out and counted."""
    if k < 2:
        return
    complete = {
        uid: scores for uid, scores in _by_item(target.values(metric)).items() if len(scores) >= k
    }
    left_out = len(_items(target)) - len(complete)

    def result(name: str, values: Mapping[str, float]) -> Result:
        by_key = {(uid, 0): value for uid, value in values.items()}
        estimate = _estimate(target, by_key, metric) if by_key else None
        unscored = len(target.unscored)
        return Result(target.name, f"{name}@{k}", estimate, unscored, None, None, left_out)

    yield result("best", {uid: best_of_k(scores, k) for uid, scores in complete.items()})
    scored = {score for scores in complete.values() for score in scores}
    if metric.scale == "rate" and complete and scored <= {0.0, 1.0}:
        passed = {uid: pass_at_k(len(s), round(sum(s)), k) for uid, s in complete.items()}
        yield result("pass", passed)


def _compare(a: TargetRows, b: TargetRows, metric: Metric) -> TargetComparison | None:
    require_same_items(a, b)
    left, right = _by_item(a.values(metric)), _by_item(b.values(metric))
    common = sorted(left.keys() & right.keys())
    if not common:
        return None
    if metric.name == LOSS:
        _require_same_tokens(a, b, common)
    comparison = compare_paired(
        [_mean(left[uid]) for uid in common],
        [_mean(right[uid]) for uid in common],
        a.clusters(common),
    )
    return TargetComparison(a.name, b.name, metric.name, comparison, len(_items(a)) - len(common))


def _items(target: TargetRows) -> dict[str, str]:
    return {uid: row.item_sha256 for (uid, _), row in target.answers.items()}


def _by_item(values: Mapping[Key, float]) -> dict[str, list[float]]:
    by_item: dict[str, list[float]] = defaultdict(list)
    for (uid, _), value in values.items():
        by_item[uid].append(value)
    return by_item


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
