"""Statistics of files with one scored answer per line: rewards, valid JSON, latency, failures.

The names and formulas are those of the summaries that training scripts print, so that the numbers
of a run here and there can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import read_lines
from engine.run.history.reward_records import RewardRecord
from engine.run.run import Run

SEED = 17
RESAMPLES = 200

_REWARDS = ("reward", "score")
_VALID = ("json_valid", "valid")
_TOKENS = ("tokens_out", "tokens")


@dataclass(frozen=True)
class AnswerSummary:
    """One row of the table; the names of the fields are those of its columns.

    The means are over the answers that have the field, and None where none has it. A row without
    any token, or with an error and no reward, is no answer of the model: it counts in
    ``infra_errors`` only.
    """

    file: str
    rows: int
    infra_errors: int
    json_valid_rate: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    reward_ci_lower: float | None
    reward_ci_upper: float | None
    reward_mean: float | None
    ttft_avg_ms: float | None

    def values(self) -> list[object]:
        return [getattr(self, name) for name in COLUMNS]


COLUMNS = tuple(field.name for field in fields(AnswerSummary))


def summarize_rows(
    file: str, rows: Iterable[Mapping[str, object]], *, seed: int = SEED, resamples: int = RESAMPLES
) -> AnswerSummary:
    """The statistics of the rows of ``file``. UsageError if no row has a reward or an error."""
    listed = list(rows)
    answered = [row for row in listed if not _is_infra_error(row)]
    rewards, latencies = _numbers(answered, _REWARDS), sorted(_numbers(answered, ("latency_ms",)))
    failed = len(listed) - len(answered)
    if not rewards and not failed:
        raise UsageError(f"{file}: no line is a JSON object with a number 'reward' or 'score'")
    low, high = _bootstrap(rewards, seed, resamples) if rewards else (None, None)
    return AnswerSummary(
        file=file,
        rows=len(listed),
        infra_errors=failed,
        json_valid_rate=_mean(_numbers(answered, _VALID)),
        latency_p95_ms=_floor_percentile(latencies, 0.95),
        latency_p99_ms=_floor_percentile(latencies, 0.99),
        reward_ci_lower=low,
        reward_ci_upper=high,
        reward_mean=_mean(rewards),
        ttft_avg_ms=_mean(_numbers(answered, ("ttft_ms",))),
    )


def read_answers(path: Path) -> list[dict[str, object]]:
    """The rows of a JSONL file. UsageError for a missing file."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    return list(jsonl.read(path))


def read_rollouts(run: Run, split: str = "train") -> list[dict[str, object]]:
    """The recorded rollouts of a run; of a step that a resume repeated, those of the last attempt.

    The numbers that a reward function returned beside the reward are fields of the row.
    """
    steps: dict[int, list[dict[str, object]]] = {}
    for attempt in run.attempts():
        repeated: set[int] = set()
        for record in read_lines(attempt.reward, RewardRecord):
            step = record.step
            if step is None or record.split != split:
                continue
            if step not in repeated:
                repeated.add(step)
                steps[step] = []
            steps[step].append({**record.numbers, **record.to_json()})
    return [row for step in sorted(steps) for row in steps[step]]


def _bootstrap(values: Sequence[float], seed: int, resamples: int) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of the mean.

    With 200 resamples the ends are coarse, and samples of one prompt count as independent; to
    compare models, use `estimate_clustered_mean`.
    """
    array, draws = np.asarray(values), np.random.default_rng(seed)
    means = sorted(float(draws.choice(array, array.size).mean()) for _ in range(resamples))
    return means[int(0.025 * (resamples - 1))], means[int(0.975 * (resamples - 1))]


def _is_infra_error(row: Mapping[str, object]) -> bool:
    """Whether a server or a scorer failed: a model makes one token at least."""
    tokens, reward = _number(row, _TOKENS), _number(row, _REWARDS)
    return (tokens is not None and tokens <= 0) or (reward is None and bool(row.get("error")))


def _numbers(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> list[float]:
    numbers = (_number(row, names) for row in rows)
    return [number for number in numbers if number is not None]


def _number(row: Mapping[str, object], names: Sequence[str]) -> float | None:
    """The first of the fields that is a finite number or a truth value."""
    values = (row.get(name) for name in names)
    numbers = (float(v) if isinstance(v, bool) else jsonl.number(v) for v in values)
    return next((number for number in numbers if number is not None), None)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _floor_percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value at the index floor(share (n - 1)) of sorted values, as short scripts take it."""
    return ordered[int(share * (len(ordered) - 1))] if ordered else None
