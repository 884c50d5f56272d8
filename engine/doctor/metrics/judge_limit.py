"""What ``judge.max_concurrent`` should be, with the numbers it follows from.

The calls of a step and their latency are the run's own. Judging should take no longer than all else
of a step does (``engine.estimate.judge``), and no more calls are proposed than the server
let through where it refused some of them (429).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.run import Run, figure, percent
from engine.estimate.judge import allowed, in_flight, pace
from engine.findings.finding import Change, Remedy
from engine.findings.remedy_builders import ROLLOUTS
from engine.history import metrics

LIMIT = "judge.max_concurrent"
_NEWEST = 10


def more_calls(run: Run) -> Remedy:
    """As many calls at once as the run needs; advice where its numbers or its limit are unknown."""
    load, limit = _load(run), run.context.get(LIMIT)
    if load is None or not isinstance(limit, int) or limit < 1:
        return Remedy(
            "Let more judge calls run at once",
            effect="shorter waits, as far as the server's rate limit allows",
        )
    served = allowed(limit, load.refused) if load.refused else None
    wanted = in_flight(load.calls, load.latency, load.seconds, served)
    if wanted <= limit:
        return Remedy(_not_more(load, limit, served))
    before, after = (figure(pace(load.calls, n, load.latency)) for n in (limit, wanted))
    return Remedy(
        f"Let {wanted} judge calls run at once in place of {limit}",
        (Change("config", LIMIT, wanted, limit),),
        f"{load.told}: {after} s of judging a step in place of {before} s, if the server takes "
        f"{wanted} at once",
    )


@dataclass(frozen=True)
class _Load:
    """Calls of a step, seconds of one, seconds for all of them, and the share that is refused."""

    calls: float
    latency: float
    seconds: float
    refused: float

    @property
    def told(self) -> str:
        return (
            f"{figure(self.calls)} calls x {seconds(self.latency)} in the "
            f"{seconds(self.seconds)} that the rest of a step takes"
        )


def _load(run: Run) -> _Load | None:
    calls, latency = _calls(run), _now(run, metrics.JUDGE_LATENCY)
    if not calls or not latency:
        return None
    rest = (_now(run, metrics.STEP_TIME) or 0.0) - (_now(run, metrics.REWARD_DURATION) or 0.0)
    refused = (_now(run, metrics.JUDGE_RATE_LIMITS) or 0.0) / calls
    return _Load(calls, latency, max(rest, latency), min(1.0, refused))


def _calls(run: Run) -> float | None:
    sizes = run.context.get("data.train_batch_size"), run.context.get(ROLLOUTS)
    planned = sizes[0] * sizes[1] if all(isinstance(one, int) for one in sizes) else None
    return _now(run, metrics.JUDGE_CALLS) or planned


def _now(run: Run, name: str) -> float | None:
    values = run.series(name).values[-_NEWEST:]
    return float(np.median(values)) if values.size else None


def _not_more(load: _Load, limit: int, served: int | None) -> str:
    if served is not None and served <= limit:
        return (
            f"ask for a higher rate limit: the judge refuses {percent(load.refused)} of the calls "
            f"(429), so about {served} of {limit} at once get through"
        )
    return f"test the judge alone: {limit} calls at once are enough for {load.told}"
