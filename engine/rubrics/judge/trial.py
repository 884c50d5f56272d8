"""A judge tried by hand: one call with a question of its own, then several at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from engine.rubrics.judge.base import Judge, JudgeResult
from engine.rubrics.judge.factory import make_judge
from engine.rubrics.settings import JudgeSettings
from engine.watch.rewards import percentile

QUESTION = "What is diabetes?"
ANSWERS = (
    "A disease in which there is too much glucose in the blood for a long time.",
    "A kind of weather.",
)
RUBRIC = "Points: 2, Item: Mentions glucose"


@dataclass(frozen=True)
class Trial:
    """``first`` alone, then ``more`` with ``at_once`` calls in flight. No call was repeated.

    ``seconds`` is how long all of ``more`` took together.
    """

    first: JudgeResult
    more: tuple[JudgeResult, ...] = ()
    at_once: int = 1
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[JudgeResult, ...]:
        return tuple(one for one in (self.first, *self.more) if one.error is not None)

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of error ended one of ``more``."""
        return Counter(one.error.kind for one in self.more if one.error is not None)

    @property
    def refused(self) -> float:
        """The share of the calls in flight that the server's rate limit refused."""
        return self.kinds["rate_limit"] / len(self.more) if self.more else 0.0

    @property
    def p50(self) -> float | None:
        """Seconds of a call that was answered; without ``more`` that of the first."""
        return percentile(self._latencies(), 0.5)

    @property
    def p95(self) -> float | None:
        return percentile(self._latencies(), 0.95)

    def _latencies(self) -> list[float]:
        known = (one.latency_s for one in self.more or (self.first,))
        return sorted(one for one in known if one is not None)


def try_judge(settings: JudgeSettings, env: Mapping[str, str], calls: int) -> Trial:
    """Ask once and, where that was answered, ``calls`` times more as a run would: at most
    ``judge.max_concurrent`` at once. Raises UsageError without credentials."""
    once = settings.model_copy(update={"max_attempts": 1})
    return asyncio.run(_try(make_judge(once, None, env), settings.max_concurrent, calls))


async def _try(judge: Judge, limit: int, calls: int) -> Trial:
    try:
        first = await _ask(judge)
        if first.error is not None or calls < 1:
            return Trial(first)
        started = time.perf_counter()
        more = await asyncio.gather(*(_ask(judge) for _ in range(calls)))
        return Trial(first, tuple(more), min(limit, calls), time.perf_counter() - started)
    finally:
        await judge.aclose()


async def _ask(judge: Judge) -> JudgeResult:
    return await judge.evaluate_answers_batched(QUESTION, ANSWERS, RUBRIC)
