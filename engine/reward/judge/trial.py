"""Try a judge: one call with a question whose right answer is known, then several concurrent ones.

Every second of these calls lists the wrong answer first, and in every second pair of them the wrong
answer is the longer one. A judge that goes by the order or the length of the answers, not by their
content, then contradicts itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.intervals import percentile
from engine.reward.judge.interface import Judge, JudgeResult
from engine.reward.judge.settings import JudgeSettings, make_judge


@dataclass(frozen=True)
class Probe:
    """A question for the judge. ``answers`` are ordered from best to worst; a single one may get
    any score."""

    question: str
    answers: tuple[str, ...]
    rubric: str


LONG_RIGHT = Probe(
    "What is diabetes?",
    (
        "A disease in which there is too much glucose in the blood for a long time.",
        "A kind of weather.",
    ),
    "Points: 2, Item: Mentions glucose",
)
LONG_WRONG = replace(
    LONG_RIGHT,
    answers=(
        "Too much glucose in the blood.",
        "A kind of weather. It comes up when warm air rises, and it ends with heavy rain.",
    ),
)


_SAME = 0.01
"""Scores that differ by less count as equal."""


@dataclass(frozen=True)
class ScoreMargins:
    """Score of the right answer minus that of the wrong one, per call.

    The right one was listed first in calls of ``straight`` and last in those of ``swapped``.
    """

    straight: tuple[float, ...]
    swapped: tuple[float, ...] = ()

    @property
    def all(self) -> tuple[float, ...]:
        return (*self.straight, *self.swapped)

    @property
    def wrong(self) -> float:
        """The share of the calls in which the right answer was not scored higher."""
        return sum(margin <= 0 for margin in self.all) / len(self.all) if self.all else 0.0

    @property
    def follows_order(self) -> bool:
        """Whether the answer listed first, or the one listed last, always gets the higher score."""
        signs = {margin > 0 for margin in self.straight}, {margin < 0 for margin in self.swapped}
        return 0 not in self.all and signs[0] == signs[1] and len(signs[0]) == 1


@dataclass(frozen=True)
class Trial:
    """The ``first`` call, then ``more`` at a concurrency of ``at_once``. No call was repeated.

    The scores of every call are those of the right answer and of the wrong one, in this order.
    ``seconds`` is the duration of all of ``more`` together. ``probe`` is the question of ``first``.
    """

    first: JudgeResult
    more: tuple[JudgeResult, ...] = ()
    at_once: int = 1
    seconds: float = 0.0
    probe: Probe = LONG_RIGHT

    @property
    def failed(self) -> tuple[JudgeResult, ...]:
        return tuple(call for call in (self.first, *self.more) if call.error is not None)

    @property
    def margins(self) -> ScoreMargins:
        """The margins of the calls that were scored."""
        straight = [self.first, *self.more[1::2]]
        return ScoreMargins(_margins(straight), _margins(self.more[::2]))

    @property
    def kinds(self) -> Counter[str]:
        """How many of ``more`` ended with each kind of error."""
        return Counter(call.error.kind for call in self.more if call.error is not None)

    @property
    def refused(self) -> float:
        """The share of ``more`` that the server's rate limit refused."""
        return self.kinds["rate_limit"] / len(self.more) if self.more else 0.0

    @property
    def p50(self) -> float | None:
        """Median seconds of an answered call of ``more``, or of the first call without any."""
        return percentile(self._latencies(), 0.5)

    @property
    def p95(self) -> float | None:
        return percentile(self._latencies(), 0.95)

    def _latencies(self) -> list[float]:
        latencies = (call.latency_s for call in self.more or (self.first,))
        return sorted(latency for latency in latencies if latency is not None)

    def to_json(self) -> dict[str, Any]:
        scores = self.first.scores
        return {
            "question": self.probe.question,
            "answers": list(self.probe.answers),
            "rubric": self.probe.rubric,
            "scores": None if scores is None else list(scores),
            "latency_s": self.first.latency_s,
            "calls": len(self.more),
            "at_once": self.at_once,
            "seconds": self.seconds,
            "p50_s": self.p50,
            "p95_s": self.p95,
            "failed": dict(self.kinds),
        }


def try_judge(
    settings: JudgeSettings, env: Mapping[str, str], calls: int, own: Probe | None = None
) -> Trial:
    """Ask once; if that succeeds, make ``calls`` more at the run's concurrency.

    ``own`` replaces the built-in question. UsageError without credentials.
    """
    without_retries = settings.model_copy(update={"max_attempts": 1})
    probes = (LONG_RIGHT, LONG_WRONG) if own is None else (own,)
    return asyncio.run(
        _try(make_judge(without_retries, None, env), settings.max_concurrent, calls, probes)
    )


async def _try(judge: Judge, limit: int, calls: int, probes: Sequence[Probe]) -> Trial:
    try:
        first = await _ask(judge, probes[0])
        if first.error is not None or calls < 1:
            return Trial(first, probe=probes[0])
        started = time.perf_counter()
        turns = ((probes[number // 2 % len(probes)], number % 2 == 0) for number in range(calls))
        results = await asyncio.gather(*(_ask(judge, *turn) for turn in turns))
        duration = time.perf_counter() - started
        return Trial(first, tuple(results), min(limit, calls), duration, probes[0])
    finally:
        await judge.aclose()


async def _ask(judge: Judge, probe: Probe, is_swapped: bool = False) -> JudgeResult:
    answers = probe.answers[::-1] if is_swapped else probe.answers
    result = await judge.evaluate_answers_batched(probe.question, answers, probe.rubric)
    if result.scores is None or not is_swapped:
        return result
    return replace(result, scores=result.scores[::-1])


def _margins(results: Sequence[JudgeResult]) -> tuple[float, ...]:
    scored = (result.scores for result in results if result.scores is not None)
    margins = (scores[0] - scores[-1] for scores in scored if len(scores) > 1)
    return tuple(0.0 if abs(margin) < _SAME else margin for margin in margins)
