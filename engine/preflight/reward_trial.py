"""A reward function tried on a few rows, apart from the process that asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.own_reward.loading import Source
from engine.own_reward.processes import RewardProcesses
from engine.reward.scorer import FunctionScorer, Rollout
from engine.reward.scoring import RolloutScore


@dataclass(frozen=True)
class Sample:
    """An answer to a row of the training file, and the row's number."""

    row: int
    rollout: Rollout


@dataclass(frozen=True)
class Trial:
    """What became of the samples that were tried, in their order. ``seconds`` is for all calls;
    ``files`` of the function's own folder were imported with it."""

    samples: tuple[Sample, ...]
    scores: tuple[RolloutScore, ...]
    files: tuple[str, ...]
    seconds: float

    @property
    def rewards(self) -> list[float]:
        return [score.reward for score in self.scores if score.reward is not None]

    @property
    def failures(self) -> list[tuple[Sample, str]]:
        """The samples without a score, and why."""
        pairs = zip(self.samples, self.scores, strict=False)
        return [(sample, score.error.message) for sample, score in pairs if score.error]

    @property
    def is_cut(self) -> bool:
        """Whether a call ran into the limit."""
        return any(score.error and score.error.kind == "reward_timeout" for score in self.scores)


def try_function(
    source: Source,
    samples: Sequence[Sample],
    call_limit_s: float,
    limit_s: float,
    env: Mapping[str, str],
) -> Trial:
    """Load the function and score ``samples``, until ``limit_s`` is over or a call is cut.

    UsageError, in one line with file and line, when it cannot be loaded.
    """
    return asyncio.run(_tried(source, samples, call_limit_s, limit_s, env))


async def _tried(
    source: Source,
    samples: Sequence[Sample],
    call_limit_s: float,
    limit_s: float,
    env: Mapping[str, str],
) -> Trial:
    deadline = time.monotonic() + limit_s
    processes = RewardProcesses(source, min(call_limit_s, limit_s), limit_s, quiet=True, env=env)
    scorer = FunctionScorer(processes.score, processes.end)
    began = time.monotonic()
    scores: list[RolloutScore] = []
    try:
        for sample in samples:
            score = (await scorer.score(sample.rollout)).score
            scores.append(score)
            cut = score.error is not None and score.error.kind == "reward_timeout"
            if cut or time.monotonic() > deadline:
                break
    finally:
        await scorer.aclose()
    return Trial(tuple(samples), tuple(scores), processes.ready.files, time.monotonic() - began)
