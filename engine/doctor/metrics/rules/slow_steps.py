"""Rules for steps that are slow from the start, or that mostly wait for the judge or a save."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.text import seconds
from engine.doctor.metrics.judge_load import NEWEST, measured_fixes, newest, waiting_for_rewards
from engine.doctor.metrics.run import Run, Series, percent
from engine.doctor.metrics.series_stats import late_level, tail_start
from engine.findings.finding import Evidence, Finding
from engine.findings.symptom import Rule
from engine.findings.symptom_file import Symptoms
from engine.history import metrics

_SLOW_S = 300.0
_LARGEST_SHARE = 0.5
"""A phase that takes more of a step than this is named as the cause."""
_JUDGE_STEPS = 3
_QUEUE_SHARE, _JUDGE_SHARE = 0.5, 0.8
_NOTICEABLE_S = 1.0
_SAVE_SHARE, _SAVE_S = 0.2, 5.0
_SOMETIMES = ("timing_s/save_checkpoint", "timing_s/testing")
JUDGING = (metrics.REWARD_DURATION, "timing_s/reward")

PHASES = {
    "timing_s/gen": "generation",
    "timing_s/reward": "reward",
    "timing_s/old_log_prob": "log-probabilities",
    "timing_s/ref": "reference log-probabilities",
    "timing_s/values": "critic values",
    "timing_s/update_actor": "actor update",
    "timing_s/update_critic": "critic update",
    "timing_s/update_weights": "weight sync",
    "timing_s/save_checkpoint": "saving checkpoints",
    "timing_s/testing": "validation",
    metrics.DATA_TIME: "waiting for data",
    metrics.UPDATE_TIME: "update",
    metrics.REWARD_DURATION: "reward and judge",
    metrics.GPU_PHASE: "generation and training",
}

_TIMES = (
    metrics.GPU_PHASE,
    metrics.REWARD_DURATION,
    metrics.JUDGE_LATENCY,
    metrics.SEMAPHORE_WAIT,
)
"""By these four times the debug guide tells which phase is slow."""

SYMPTOMS = Symptoms(__file__)


def check(run: Run) -> Iterator[Finding]:
    judge_findings = list(_judge_share(run))
    yield from judge_findings
    yield from _slow_first_step(run)
    yield from _slow_saving(run)
    if not judge_findings:
        yield from _slow_from_start(run)


def _judge_share(run: Run) -> Iterator[Finding]:
    """Find steps that mostly wait for the judge: for a free slot, or for its replies."""
    step, call = run.series(metrics.STEP_TIME), run.series(metrics.JUDGE_LATENCY)
    if min(len(step), len(call), len(run.series(metrics.REWARD_DURATION))) < _JUDGE_STEPS:
        return
    judging, queue = waiting_for_rewards(run), run.series(metrics.SEMAPHORE_WAIT)
    share = late_level(judging.values, NEWEST) / max(late_level(step.values, NEWEST), 1e-9)
    call_s, wait_s = late_level(call.values, NEWEST), newest(run, metrics.SEMAPHORE_WAIT) or 0.0
    if share > _QUEUE_SHARE and wait_s >= max(_NOTICEABLE_S, call_s):
        limit = run.context.get("judge.max_concurrent")
        yield SYMPTOMS["judge_queue"].finding(
            run.case(_share_onset(judging, step, _QUEUE_SHARE)),
            run.evidence("wait for a judge slot", queue.step(-1), wait=wait_s, call=call_s),
            *_times(run),
            remedies=measured_fixes(run, SYMPTOMS["judge_queue"]),
            wait=seconds(wait_s),
            slot=f"one of {limit} slots" if limit is not None else "a free slot",
            call=seconds(call_s),
            share=percent(share),
            medians=f"medians of the last {min(NEWEST, len(queue))} steps",
        )
    elif share > _JUDGE_SHARE and call_s >= _NOTICEABLE_S:
        yield SYMPTOMS["judge_time"].finding(
            run.case(_share_onset(judging, step, _JUDGE_SHARE)),
            run.evidence("share of rewards in a step", call.step(-1), share=share, call=call_s),
            *_times(run),
            remedies=measured_fixes(run, SYMPTOMS["judge_time"]),
            call=seconds(call_s),
            share=percent(share),
            medians=f"medians of the last {min(NEWEST, len(call))} steps",
        )


def _share_onset(part: Series, step: Series, share: float) -> int:
    """Return the step since which ``part`` takes that share of every step, else its first step."""
    steps, of_part, of_step = np.intersect1d(part.steps, step.steps, return_indices=True)
    index = tail_start(part.values[of_part] > share * step.values[of_step], _JUDGE_STEPS)
    return part.step(0) if index is None else int(steps[index])


def _slow_first_step(run: Run) -> Iterator[Finding]:
    step = run.series(metrics.STEP_TIME)
    if len(step) < 5:
        return
    first, usual = float(step.values[0]), float(np.median(step.values[1:]))
    if first < 3 * usual or first - usual < 1.0:
        return
    onset = step.step(0)
    evidence = run.evidence("first step", onset, first=first, usual=usual)
    case, usual_s = run.case(onset), seconds(usual)
    yield SYMPTOMS["slow_step.warm_up"].finding(case, evidence, first=seconds(first), usual=usual_s)


def plain_steps(run: Run) -> Series:
    """Return step times without saving, validation and the first step of each attempt."""
    step = run.series(metrics.STEP_TIME)
    occasional = [run.columns.get(name).at(step.steps) for name in _SOMETIMES]
    values = step.values - np.nan_to_num(sum(occasional, np.zeros(len(step))))
    keep = ~np.isin(step.steps, [start.first_step for start in run.context.starts])
    keep[:1] = False
    return Series(step.name, step.steps[keep], values[keep])


def _slow_saving(run: Run) -> Iterator[Finding]:
    """Find checkpoints that take a large share of the time between two of them."""
    saves, steps = run.series("timing_s/save_checkpoint"), plain_steps(run)
    if len(saves) < 2 or len(steps) < 5:
        return
    every = float(np.median(np.diff(saves.steps)))
    cost, usual = float(np.median(saves.values)), float(np.median(steps.values))
    if usual <= 0:  # Steps that are shorter than their saves do not contain them.
        usual = float(np.median(run.series(metrics.STEP_TIME).values))
    if cost < _SAVE_S or (share := cost / (every * usual + cost)) < _SAVE_SHARE:
        return
    onset = saves.step(0)
    yield SYMPTOMS["slow_step.saving"].finding(
        run.case(onset),
        run.evidence("saving", onset, seconds=cost, every=every),
        share=percent(share),
        cost=seconds(cost),
        every=f"{every:g}",
        usual=seconds(usual),
    )


def _slow_from_start(run: Run) -> Iterator[Finding]:
    step = _usual_step(run)
    if step is None or step <= _SLOW_S:
        return
    phase, cost = _largest_phase(run)
    if cost <= _LARGEST_SHARE * step:
        largest = f"the largest phase is {PHASES[phase]} with {percent(cost / step)}"
        yield SYMPTOMS["slow_overall"].finding(
            run.case(),
            Evidence(f"the median step is {seconds(step)}", values={"seconds": step}),
            *_times(run),
            step=seconds(step),
            largest=largest if cost else "the log has no times of its phases",
        )
        return
    is_judged = phase == metrics.REWARD_DURATION or (
        phase in JUDGING and len(run.series(metrics.SEMAPHORE_WAIT)) > 0
    )
    kind, calls = _judge_calls(run) if is_judged else ("long", "")
    if phase in JUDGING:
        remedies = measured_fixes(run, SYMPTOMS[f"slow_step.{'judge' if kind == 'long' else kind}"])
    else:
        remedies = SYMPTOMS.fixes(phase, run.case())
    yield SYMPTOMS[f"slow_step.{kind}"].finding(
        run.case(),
        run.evidence(f"{phase} is {seconds(cost)} of {seconds(step)}", seconds=cost, of=step),
        *_times(run),
        remedies=remedies,
        step=seconds(step),
        cost=seconds(cost),
        share=percent(min(1.0, cost / step)),
        phase=PHASES[phase],
        calls=calls,
    )


def _times(run: Run) -> Iterator[Evidence]:
    """Yield the median of each of ``_TIMES`` that the log has, as one piece of evidence."""
    usual = {name: _usual(run.series(name)) for name in _TIMES}
    logged = {name: value for name, value in usual.items() if value is not None}
    if logged:
        text = ", ".join(f"{name} {seconds(value)}" for name, value in logged.items())
        yield Evidence(f"medians: {text}", run.context.path, values=logged)


def _usual(series: Series) -> float | None:
    """Return the median without the first step, which warms up; None for fewer than 2 values."""
    values = series.values
    if values.size < 2:
        return None
    return float(np.median(values[1:] if values.size > 2 else values))


def _usual_step(run: Run) -> float | None:
    """Return the seconds of a usual step; without step times, its GPU and reward phases."""
    if (step := _usual(run.series(metrics.STEP_TIME))) is not None:
        return step
    phases = [_usual(run.series(name)) for name in (metrics.GPU_PHASE, metrics.REWARD_DURATION)]
    logged = [phase for phase in phases if phase is not None]
    return sum(logged) if logged else None


def _largest_phase(run: Run) -> tuple[str, float]:
    """Return the phase that takes most of a usual step, and its seconds."""
    steps = len(run.first(metrics.STEP_TIME, metrics.GPU_PHASE, metrics.REWARD_DURATION))
    regular = [name for name in PHASES if 2 * len(run.series(name)) >= steps]
    costs = {name: _usual(run.series(name)) or 0.0 for name in regular}
    costs[metrics.REWARD_DURATION] = _usual(waiting_for_rewards(run)) or 0.0
    if _usual(run.series(metrics.STEP_TIME)) is not None:
        # The GPU phase is the rest of a step beside the rewards: its parts are logged as well.
        costs.pop(metrics.GPU_PHASE, None)
    phase = max(costs, key=costs.__getitem__)
    return phase, costs[phase]


def _judge_calls(run: Run) -> tuple[str, str]:
    """Return whether the judge or its queue is slow, and the times of a call in words."""
    wait, call = (_usual(run.series(n)) for n in (metrics.SEMAPHORE_WAIT, metrics.JUDGE_LATENCY))
    if call is None:
        if wait is None or wait < _NOTICEABLE_S:
            return "judge", ""
        return "judge_queue", f" A call waits {seconds(wait)} for a free slot."
    if wait is None:
        return "judge", f" A call takes {seconds(call)}."
    text = f" A call waits {seconds(wait)} for a free slot and then takes {seconds(call)}."
    return "judge_queue" if wait >= call else "judge", text


RULE = Rule(check)
