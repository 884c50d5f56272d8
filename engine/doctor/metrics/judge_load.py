"""How long a step waits for the judge, and what ``judge.max_concurrent`` should be.

The calls of a step and their latency are the run's own. Judging should take no longer than the rest
of a step does (``engine.estimate.judge``), and no more calls are proposed than the server
accepted where it refused some of them (429).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.estimate.judge import allowed, in_flight, pace
from engine.findings.finding import Change, Remedy
from engine.findings.remedy_builders import ROLLOUTS
from engine.history import metrics

MORE_CALLS = Remedy(
    "Raise judge.max_concurrent", effect="shorter waits, as far as the server's rate limit allows"
)
_LIMIT = "judge.max_concurrent"
_NEWEST = 10
_STEPS = 3


def waiting_for_rewards(run: Run) -> Series:
    """Seconds of a step in which only rewards are computed.

    Where a log has only the time from the first to the last reward, generation may overlap with it:
    after the last rollout no reward takes longer than a call and its wait for a slot.
    """
    measured, total = run.series(metrics.REWARD_WAIT), run.series(metrics.REWARD_DURATION)
    if len(measured) >= _STEPS or not len(run.series("timing_s/gen")):
        return measured if len(measured) >= _STEPS else total
    calls = (metrics.JUDGE_LATENCY, metrics.JUDGE_LATENCY_P95)
    bound = max(newest(run, name) or 0.0 for name in calls)
    bound += newest(run, metrics.SEMAPHORE_WAIT) or 0.0
    return Series(total.name, total.steps, np.minimum(total.values, bound))


def newest(run: Run, name: str) -> float | None:
    """The median of the metric's last ten values."""
    values = run.series(name).values[-_NEWEST:]
    return float(np.median(values)) if values.size else None


def more_calls(run: Run) -> Remedy:
    """The concurrency that the run needs; advice where its metrics or its limit are unknown."""
    load, limit = _load(run), run.context.get(_LIMIT)
    if load is None or not isinstance(limit, int) or limit < 1:
        return MORE_CALLS
    served = allowed(limit, load.refused) if load.refused else None
    wanted = in_flight(load.calls, load.latency, load.seconds, served)
    if wanted <= limit:
        return Remedy(_not_more(load, limit, served))
    before, after = (figure(pace(load.calls, n, load.latency)) for n in (limit, wanted))
    return Remedy(
        f"Raise judge.max_concurrent from {limit} to {wanted}",
        (Change("config", _LIMIT, wanted, limit),),
        f"{load.summary}: {after} s of judging per step instead of {before} s, if the server "
        f"accepts {wanted} concurrent calls",
    )


@dataclass(frozen=True)
class _Load:
    """Calls of a step, seconds of one, seconds for all of them, and the share that is refused."""

    calls: float
    latency: float
    seconds: float
    refused: float

    @property
    def summary(self) -> str:
        return (
            f"{figure(self.calls)} calls x {seconds(self.latency)} in the "
            f"{seconds(self.seconds)} that the rest of a step takes"
        )


def _load(run: Run) -> _Load | None:
    sizes = run.context.get("data.train_batch_size"), run.context.get(ROLLOUTS)
    planned = sizes[0] * sizes[1] if all(isinstance(size, int) for size in sizes) else None
    calls, latency = newest(run, metrics.JUDGE_CALLS) or planned, newest(run, metrics.JUDGE_LATENCY)
    if not calls or not latency:
        return None
    step, rewards = newest(run, metrics.STEP_TIME), newest(run, metrics.REWARD_DURATION)
    rest = (step or 0.0) - (rewards or 0.0)
    refused = (newest(run, metrics.JUDGE_RATE_LIMITS) or 0.0) / calls
    return _Load(calls, latency, max(rest, latency), min(1.0, refused))


def _not_more(load: _Load, limit: int, served: int | None) -> str:
    if served is not None and served <= limit:
        return (
            f"Ask for a higher rate limit: the judge refuses {percent(load.refused)} of the calls "
            f"(429), so about {served} of {limit} concurrent calls get through"
        )
    return f"Test the judge on its own: a concurrency of {limit} is enough for {load.summary}"
