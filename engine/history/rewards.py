"""From one record per rollout to the reward and judge metrics of a step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from engine.base import jsonl
from engine.history import metrics
from engine.history.reward_records import conversation_of, is_own, numbers_of_reward
from engine.reward.conversation import OUTCOMES
from engine.statistics.intervals import estimate_clustered_mean, percentile

Record = dict[str, Any]

_ZERO_STD = 1e-9
_AT_ONCE_S = 0.01
"""A reward that starts so soon after the end of another one waited for it."""


def reward_metrics(records: Sequence[Record]) -> dict[str, float | None]:
    """Canonical reward and judge metrics of one step's rollouts (``reward.jsonl`` records).

    ``reward/std`` is the population std inside a group, averaged over groups: the spread that
    becomes the GRPO advantage. Failed samples (reward null) count only in ``reward/failed_share``.
    """
    if not records:
        return {}
    rewards = [float(r["reward"]) for r in records if _is_number(r.get("reward"))]
    stds = [_std(group) for group in _groups(records) if len(group) > 1]
    return {
        **_own_metrics(records),
        metrics.REWARD_MEAN: _mean(rewards),
        metrics.REWARD_STD: _mean(stds),
        metrics.REWARD_MIN: min(rewards, default=None),
        metrics.REWARD_MAX: max(rewards, default=None),
        metrics.ZERO_STD_SHARE: _mean([float(std < _ZERO_STD) for std in stds]),
        metrics.FAILED_SHARE: 1 - len(rewards) / len(records),
        metrics.REWARD_DURATION: _wall(records),
        metrics.REWARD_WAIT: _wait(records),
        **_judge_metrics([record for record in records if not is_own(record)]),
        **_blocked_share(records),
        **_tool_metrics(records),
    }


def _blocked_share(records: Sequence[Record]) -> dict[str, float | None]:
    """Empty if the run has no blocklist."""
    found = [record["blocked"] for record in records if isinstance(record.get("blocked"), list)]
    return {metrics.BLOCKED_SHARE: _mean([float(bool(texts)) for texts in found])} if found else {}


def _tool_metrics(records: Sequence[Record]) -> dict[str, float | None]:
    """Means over the rollouts of their turns and calls; of the calls, the share of each outcome.

    Empty if the run has no tools.
    """
    read = [found for record in records if (found := conversation_of(record)) is not None]
    if not read:
        return {}
    numbers = [conversation.numbers() for conversation in read]
    calls = math.fsum(counts["calls"] for counts in numbers)
    shares = {
        f"tools/{name}": math.fsum(counts[f"calls_{name}"] for counts in numbers) / calls
        for name in OUTCOMES
        if calls
    }
    means = {f"tools/{name}": _mean([n[name] for n in numbers]) for name in ("turns", "calls")}
    return {**means, **shares}


def _own_metrics(records: Sequence[Record]) -> dict[str, float | None]:
    """Metrics of an own reward function: its failures, and the means of the numbers that it returns
    beside the score, as ``reward/<name>``."""
    own_records = [record for record in records if is_own(record)]
    if not own_records:
        return {}
    numbers: dict[str, list[float]] = defaultdict(list)
    for record in own_records:
        for name, value in numbers_of_reward(record.get("parts")).items():
            numbers[f"reward/{name}"].append(value)
    return {
        **{name: _mean(values) for name, values in numbers.items()},
        metrics.REWARD_ERRORS: float(
            sum(record.get("error") is not None for record in own_records)
        ),
        metrics.REWARD_TIMEOUTS: float(_failures(own_records, "reward_timeout")),
    }


def _judge_metrics(records: Sequence[Record]) -> dict[str, float | None]:
    if not records:
        return {}
    latencies = sorted(_numbers(records, "judge_latency_s"))
    return {
        metrics.JUDGE_LATENCY: _mean(latencies),
        metrics.JUDGE_LATENCY_P50: percentile(latencies, 0.5),
        metrics.JUDGE_LATENCY_P95: percentile(latencies, 0.95),
        metrics.SEMAPHORE_WAIT: _mean(_numbers(records, "semaphore_wait_s")),
        metrics.JUDGE_CALLS: sum(_numbers(records, "attempts")),
        metrics.JUDGE_ERRORS: float(sum(record.get("error") is not None for record in records)),
        metrics.JUDGE_TIMEOUTS: float(_failures(records, "timeout")),
        metrics.JUDGE_RATE_LIMITS: float(_failures(records, "rate_limit")),
        metrics.JUDGE_PARSE_FAILURES: float(_failures(records, "parse")),
        **_tokens(records),
    }


def validation_metrics(records: Sequence[Record]) -> dict[str, float | None]:
    """Mean validation reward over the rollouts that could be judged, with its interval over the
    prompts, and the mean of the best rollout of each prompt if all have several."""
    groups = _groups(records)
    if not groups:
        return {metrics.VALIDATION_REWARD: None} if records else {}
    prompts = [index for index, group in enumerate(groups) for _ in group]
    mean = estimate_clustered_mean([reward for group in groups for reward in group], prompts)
    values: dict[str, float | None] = {metrics.VALIDATION_REWARD: mean.mean}
    if mean.low is not None and mean.high is not None:
        values |= {metrics.VALIDATION_LOW: mean.low, metrics.VALIDATION_HIGH: mean.high}
    if all(len(group) > 1 for group in groups):
        values[metrics.VALIDATION_BEST] = _mean([max(group) for group in groups])
    return values


def _failures(records: Iterable[Record], kind: str) -> int:
    """Calls that failed in this way, including those whose retry succeeded."""
    count = 0
    for record in records:
        attempts, error = record.get("failed_attempts"), record.get("error")
        if isinstance(attempts, list):
            count += attempts.count(kind)
        elif isinstance(error, dict):  # a record from before attempts were recorded
            count += error.get("kind") == kind
    return count


def _tokens(records: Iterable[Record]) -> dict[str, float | None]:
    """Tokens sent to and received from the judge; empty when no reply reported them."""
    usages = [tokens for record in records if isinstance(tokens := record.get("tokens"), dict)]
    if not usages:
        return {}
    return {
        metrics.JUDGE_TOKENS_IN: math.fsum(_numbers(usages, "input")),
        metrics.JUDGE_TOKENS_OUT: math.fsum(_numbers(usages, "output")),
    }


def _groups(records: Iterable[Record]) -> list[list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if _is_number(record.get("reward")):
            groups[str(record.get("group"))].append(float(record["reward"]))
    return list(groups.values())


def _wall(records: Sequence[Record]) -> float | None:
    """Seconds from the start of the first reward to the end of the last one."""
    spans = _spans(records)
    if not spans:
        return None
    return max(end for _, end, _ in spans) - min(start for start, _, _ in spans)


def _wait(records: Sequence[Record]) -> float | None:
    """Seconds from the last rollout that was generated to the last reward.

    A rollout's reward starts when the rollout is generated: until the last one starts, rewards run
    beside generation and nothing waits for them. A reward that starts where another of its process
    ends waited in line, so its start does not tell when its rollout was generated.
    """
    spans = sorted(_spans(records))
    if not spans:
        return None
    ends: dict[Any, list[float]] = defaultdict(list)
    for _, end, worker in spans:
        ends[worker].append(end)
    for times in ends.values():
        times.sort()
    last_start = spans[0][0]
    for start, _, worker in spans:
        before = bisect_right(ends[worker], start)
        has_waited = before > 0 and start - ends[worker][before - 1] < _AT_ONCE_S
        if not has_waited:
            last_start = start
    return max(end for _, end, _ in spans) - last_start


def _spans(records: Iterable[Record]) -> list[tuple[float, float, Any]]:
    """Start and end of each reward, and the process that computed it."""
    return [
        (float(record["t"] - record["duration_s"]), float(record["t"]), record.get("pid"))
        for record in records
        if _is_number(record.get("t")) and _is_number(record.get("duration_s"))
    ]


def _numbers(records: Iterable[Record], key: str) -> list[float]:
    return [float(record[key]) for record in records if _is_number(record.get(key))]


def _is_number(value: Any) -> bool:
    return jsonl.number(value) is not None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _std(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
