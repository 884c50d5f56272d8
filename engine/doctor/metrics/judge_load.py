"""How long a step waits for the judge, and the ``judge.max_concurrent`` that the run needs.

The number of calls and their latency are measured in the run. Judging should take no longer than
the rest of a step (``engine.checks.estimate.judge``). If the server refused calls (429), no more
calls are proposed than it accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.base.quantities import format_seconds
from engine.checks.estimate.judge import allowed, in_flight, pace
from engine.doctor.metrics.logged_run import LoggedRun, Series, figure, percent
from engine.doctor.metrics.series_stats import late_level
from engine.run import fixes
from engine.run.finding import Change, Fix
from engine.run.finding_kind import Case, FindingKind
from engine.run.history import metrics

_MORE_CALLS = fixes.more_calls(Case())
NEWEST = 10
"""Current values are medians of this many steps."""
_LIMIT = "judge.max_concurrent"
_STEPS = 3


def waiting_for_rewards(run: LoggedRun) -> Series:
    """Return the seconds of a step in which only rewards are computed.

    If the log has only the time from the first to the last reward, generation may overlap with it:
    after the last rollout, no reward takes longer than a call and its wait for a slot.
    """
    measured, total = run.series(metrics.REWARD_WAIT), run.series(metrics.REWARD_DURATION)
    if len(measured) >= _STEPS:
        return measured
    if not len(run.series("timing_s/gen")):
        return total
    latencies = (newest(run, name) for name in (metrics.JUDGE_LATENCY, metrics.JUDGE_LATENCY_P95))
    bound = max(latency or 0.0 for latency in latencies)
    bound += newest(run, metrics.SEMAPHORE_WAIT) or 0.0
    return Series(total.name, total.steps, np.minimum(total.values, bound))


def newest(run: LoggedRun, name: str) -> float | None:
    """Return the current value of a metric."""
    values = run.series(name).values
    return late_level(values, NEWEST) if values.size else None


def measured_fixes(run: LoggedRun, finding_kind: FindingKind) -> tuple[Fix, ...]:
    """Return the fixes of a finding; that of the judge's concurrency says what the run needs."""
    offered = finding_kind.fixes(run.case())
    return tuple(_more_calls(run) if fix == _MORE_CALLS else fix for fix in offered)


def _more_calls(run: LoggedRun) -> Fix:
    """Propose the concurrency that the run needs; advice if its metrics or limit are unknown."""
    load, limit = _read_load(run), run.context.get(_LIMIT)
    if load is None or not isinstance(limit, int) or limit < 1:
        return _MORE_CALLS
    served = allowed(limit, load.refused) if load.refused else None
    wanted = in_flight(load.calls, load.latency, load.seconds, served)
    call, rest = format_seconds(load.latency), format_seconds(load.seconds)
    need = f"{figure(load.calls)} calls x {call} in the {rest} that the rest of a step takes"
    if wanted > limit:
        before, after = (figure(pace(load.calls, calls, load.latency)) for calls in (limit, wanted))
        return Fix(
            f"Raise judge.max_concurrent from {limit} to {wanted}",
            (Change("config", _LIMIT, wanted, limit),),
            f"{need}: {after} s of judging per step instead of {before} s, if the server accepts "
            f"{wanted} concurrent calls",
        )
    if served is not None and served <= limit:
        return Fix(
            f"Ask for a higher rate limit: the judge refuses {percent(load.refused)} of the calls "
            f"(429), so about {served} of {limit} concurrent calls get through"
        )
    return Fix(f"Test the judge alone: a concurrency of {limit} is enough for {need}")


@dataclass(frozen=True)
class _Load:
    """Calls of a step, seconds of one, seconds for all of them, and the share that is refused."""

    calls: float
    latency: float
    seconds: float
    refused: float


def _read_load(run: LoggedRun) -> _Load | None:
    calls = newest(run, metrics.JUDGE_CALLS) or run.context.rollouts_per_step
    latency = newest(run, metrics.JUDGE_LATENCY)
    if not calls or not latency:
        return None
    step, rewards = newest(run, metrics.STEP_TIME), newest(run, metrics.REWARD_DURATION)
    other_phases = (step or 0.0) - (rewards or 0.0)
    refused = (newest(run, metrics.JUDGE_RATE_LIMITS) or 0.0) / calls
    return _Load(calls, latency, max(other_phases, latency), min(1.0, refused))
