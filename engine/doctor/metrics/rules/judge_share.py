"""Steps that mostly wait for the judge: for a free slot, or for its answers.

Shape: over the last 3 steps and more rewards take more than half of a step, and a call waits a
second and longer than it then takes (the queue); or rewards take four fifths of a step with calls
of a second and more (the judge). Ruled out: judges that are slow beside generation that is slower,
rewards that come in while other rollouts are generated.
Source: seed guide (a high ``semaphore_wait`` means that the limit is the bottleneck).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.judge_limit import more_calls
from engine.doctor.metrics.run import Run, Series, percent
from engine.doctor.metrics.series_stats import lasting
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_STEPS = 3
_QUEUE_SHARE = 0.5
_JUDGE_SHARE = 0.8
_NOTICEABLE_S = 1.0


def check(run: Run) -> Iterator[Finding]:
    wait, step = run.series(metrics.SEMAPHORE_WAIT), run.series(metrics.STEP_TIME)
    call, total = run.series(metrics.JUDGE_LATENCY), run.series(metrics.REWARD_DURATION)
    if min(len(call), len(step), len(total)) < _STEPS:
        return
    waiting = waiting_for_rewards(run)
    share = _now(waiting) / max(_now(step), 1e-9)
    if share > _QUEUE_SHARE and _now(wait) >= max(_NOTICEABLE_S, _now(call)):
        yield _queue(run, wait, share, _onset(waiting, step, _QUEUE_SHARE))
    elif share > _JUDGE_SHARE and _now(call) >= _NOTICEABLE_S:
        yield _judge(run, call, share, _onset(waiting, step, _JUDGE_SHARE))


def waiting_for_rewards(run: Run) -> Series:
    """Seconds of a step in which nothing but rewards is done.

    Where a log has only the time from the first to the last reward, generation may lie within it:
    after the last rollout no reward takes longer than a call and its wait for a slot.
    """
    measured, total = run.series(metrics.REWARD_WAIT), run.series(metrics.REWARD_DURATION)
    if len(measured) >= _STEPS or not len(run.series("timing_s/gen")):
        return measured if len(measured) >= _STEPS else total
    calls = (metrics.JUDGE_LATENCY, metrics.JUDGE_LATENCY_P95)
    longest = max(_now(run.series(name)) for name in calls)
    bound = longest + _now(run.series(metrics.SEMAPHORE_WAIT))
    return Series(total.name, total.steps, np.minimum(total.values, bound))


def _onset(total: Series, step: Series, share: float) -> int:
    """Since when rewards take that share of every step; else the first step that has them."""
    steps, of_total, of_step = np.intersect1d(total.steps, step.steps, return_indices=True)
    large = total.values[of_total] > share * step.values[of_step]
    place = lasting(large, _STEPS)
    return int(steps[place]) if place is not None else total.step(0)


def _now(series: Series) -> float:
    return float(np.median(series.values[-10:])) if len(series) else 0.0


def _medians(series: Series) -> str:
    return f"medians of the last {min(10, len(series))} steps"


def _queue(run: Run, wait: Series, share: float, onset: int) -> Finding:
    limit = run.context.get("judge.max_concurrent")
    slot = f"one of {limit} slots" if limit is not None else "a free slot"
    call = _now(run.series(metrics.JUDGE_LATENCY))
    return Finding(
        "slow_step.judge_queue",
        Severity.WARNING,
        "Most of a step waits for the judge's queue",
        f"A call waits {seconds(_now(wait))} for {slot} and then takes "
        f"{seconds(call)}; rewards take {percent(share)} of a step ({_medians(wait)}).",
        (run.seen("wait for a judge slot", wait.step(-1), wait=_now(wait), call=call),),
        (more_calls(run),),
        onset,
        source="seed guide: semaphore wait",
    )


def _judge(run: Run, call: Series, share: float, onset: int) -> Finding:
    return Finding(
        "slow_step.judge",
        Severity.WARNING,
        f"{percent(share)} of a step waits for the judge",
        f"A judge call takes {seconds(_now(call))}, and rewards take {percent(share)} of a step "
        f"({_medians(call)}): the GPU idles meanwhile.",
        (run.seen("share of rewards in a step", call.step(-1), share=share, call=_now(call)),),
        (
            more_calls(run),
            Remedy("Test the judge alone; a smaller model or fewer answers a question are faster"),
        ),
        onset,
        source="seed guide: which phase",
    )
