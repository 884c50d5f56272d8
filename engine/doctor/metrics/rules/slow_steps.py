"""Steps that are slow from the start, and what they spend their time on.

Shape: the median step takes more than five minutes; a warning where one phase takes more than half
of it, else worth knowing. Phases of few steps (a checkpoint every 50) do not count. Where a log has
no step time, a step is its GPU phase and its reward phase together (``STEP_TIMING`` lines). The
first step warms up and does not count where there are others. Ruled out: steps that a rule on the
judge's share names already.
Source: debug guide of GRubrics (more than 5 minutes a step is slow; ``sem_wait`` above the call's
own time means that the limit is the bottleneck).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.judge_limit import more_calls
from engine.doctor.metrics.rules import judge_share
from engine.doctor.metrics.run import Run, Series, percent
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

_SLOW_S = 300.0
_STEPS = 2
_MOST = 0.5
_ROLLOUT = "actor_rollout_ref.rollout"

_WORDS = {
    "timing_s/gen": "generation",
    "timing_s/reward": "reward",
    "timing_s/old_log_prob": "log-probabilities",
    "timing_s/ref": "reference log-probabilities",
    "timing_s/values": "the critic's values",
    "timing_s/update_actor": "the actor's update",
    "timing_s/update_critic": "the critic's update",
    "timing_s/update_weights": "weight sync",
    "timing_s/save_checkpoint": "saving checkpoints",
    "timing_s/testing": "validation",
    metrics.REWARD_DURATION: "reward and judge",
    metrics.GPU_PHASE: "generation and training",
}


def check(run: Run) -> Iterator[Finding]:
    step = step_seconds(run)
    if step is None or step <= _SLOW_S or any(judge_share.check(run)):
        return
    phase, cost = _largest_phase(run)
    yield _slow(run, step, phase, cost) if cost > _MOST * step else _spread_out(step, phase, cost)


def _slow(run: Run, step: float, phase: str, cost: float) -> Finding:
    return Finding(
        f"slow_step.{_kind(run, phase)}",
        Severity.WARNING,
        f"A step takes {seconds(step)}",
        f"The median step takes {seconds(step)}, from the start; more than 5 minutes is slow for "
        f"a run that one watches. {seconds(cost)} of it, {percent(min(1.0, cost / step))}, are "
        f"{_WORDS[phase]}.{_calls(run, phase)}",
        (run.seen(f"{phase} is {seconds(cost)} of {seconds(step)}", seconds=cost, of=step),),
        _remedies(run, phase),
        confidence=0.6,
        source="debug guide of GRubrics: more than 5 min a step",
    )


def _spread_out(step: float, phase: str, cost: float) -> Finding:
    largest = (
        f"the largest phase is {_WORDS[phase]} with {percent(cost / step)}"
        if cost
        else "the log has no seconds of its phases"
    )
    return Finding(
        "slow_step.long",
        Severity.INFO,
        f"A step takes {seconds(step)}",
        f"The median step takes {seconds(step)}, from the start; more than 5 minutes is slow for "
        f"a run that one watches. No phase takes half of it: {largest}.",
        (Evidence(f"the median step is {seconds(step)}", values={"seconds": step}),),
        (Remedy("Fewer prompts or rollouts a step, if its size is not what you want"), _idle()),
        confidence=0.6,
        source="debug guide of GRubrics: more than 5 min a step",
    )


def _kind(run: Run, phase: str) -> Literal["judge", "judge_queue", "long"]:
    if phase != metrics.REWARD_DURATION:
        return "long"
    wait, call = _median(run, metrics.SEMAPHORE_WAIT), _median(run, metrics.JUDGE_LATENCY)
    return "judge_queue" if wait is not None and call is not None and wait >= call else "judge"


def _calls(run: Run, phase: str) -> str:
    wait, call = _median(run, metrics.SEMAPHORE_WAIT), _median(run, metrics.JUDGE_LATENCY)
    if phase != metrics.REWARD_DURATION or call is None:
        return ""
    if wait is None:
        return f" A call takes {seconds(call)}."
    return f" A call waits {seconds(wait)} for a free slot and then takes {seconds(call)}."


def step_seconds(run: Run) -> float | None:
    """Seconds of the median step; None where the log does not tell."""
    if (step := _median(run, metrics.STEP_TIME)) is not None:
        return step
    phases = [_median(run, name) for name in (metrics.GPU_PHASE, metrics.REWARD_DURATION)]
    known = [phase for phase in phases if phase is not None]
    return sum(known) if known else None


def _median(run: Run, name: str) -> float | None:
    return _typical(run.series(name))


def _typical(series: Series) -> float | None:
    values = series.values
    if values.size < _STEPS:
        return None
    return float(np.median(values[1:] if values.size > _STEPS else values))


def _largest_phase(run: Run) -> tuple[str, float]:
    steps = len(run.first(metrics.STEP_TIME, metrics.GPU_PHASE, metrics.REWARD_DURATION))
    usual = [name for name in _WORDS if 2 * len(run.series(name)) >= steps]
    costs = {name: _median(run, name) or 0.0 for name in usual}
    costs[metrics.REWARD_DURATION] = _typical(judge_share.waiting_for_rewards(run)) or 0.0
    if _median(run, metrics.STEP_TIME) is not None:
        # It is what is left of a step beside the rewards: its parts are logged as well.
        costs.pop(metrics.GPU_PHASE, None)
    phase = max(costs, key=costs.__getitem__)
    return phase, costs[phase]


def _remedies(run: Run, phase: str) -> tuple[Remedy, ...]:
    context = run.context
    if phase in (metrics.REWARD_DURATION, "timing_s/reward"):
        tested = Remedy("Test the judge alone: its latency may be its server's")
        queued = _kind(run, phase) == "judge_queue"
        return (more_calls(run), tested) if queued else (tested, more_calls(run))
    if phase == "timing_s/gen":
        return (
            cures.scaled(context, cures.RESPONSE, 0.5, "Shorter responses", "less to generate"),
            cures.setting(
                context,
                f"{_ROLLOUT}.gpu_memory_utilization",
                0.8,
                "More GPU memory for the rollout engine",
                "more sequences at once",
            ),
        )
    if phase == "timing_s/save_checkpoint":
        title, effect = "Save less often", "less time spent saving"
        return (cures.scaled(context, "trainer.save_freq", 5, title, effect),)
    if phase == "timing_s/testing":
        title, effect = "Validate less often", "less time spent on validation"
        return (cures.scaled(context, "trainer.test_freq", 5, title, effect),)
    if phase in ("timing_s/update_actor", "timing_s/update_critic"):
        return (*_larger_batches(run, f"{cures.ACTOR}.ppo_micro_batch_size_per_gpu"), _idle())
    key = f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu"
    return (*_larger_batches(run, key), _idle())


def _larger_batches(run: Run, key: str) -> tuple[Remedy, ...]:
    use = f"{cures.ACTOR}.use_dynamic_bsz"
    title = "Pack micro batches by tokens"
    return (
        cures.scaled(run.context, key, 2, "Larger micro batches", "fewer, fuller passes"),
        cures.setting(run.context, use, True, title, "no pass is mostly padding"),
    )


def _idle() -> Remedy:
    return Remedy(
        "Look at the GPU's utilization: offloading, a lower clock or another process slow it down"
    )
