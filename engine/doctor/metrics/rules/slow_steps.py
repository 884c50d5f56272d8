"""Rules for steps that are slow from the start, become slower, or mostly wait for judge or save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.base.quantities import format_seconds
from engine.doctor.metrics.judge_load import NEWEST, measured_fixes, newest, waiting_for_rewards
from engine.doctor.metrics.logged_run import LENGTH, LoggedRun, Series, figure, percent
from engine.doctor.metrics.series_stats import late_level, tail_start
from engine.run.finding import Evidence, Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_SLOW_S = 300.0
_LARGEST_SHARE = 0.5
"""A phase that takes more of a step than this is named as the cause."""
_JUDGE_STEPS = 3
_QUEUE_SHARE, _JUDGE_SHARE = 0.5, 0.8
_NOTICEABLE_S = 1.0
_SAVE_SHARE, _SAVE_S = 0.2, 5.0
_SOMETIMES = ("timing_s/save_checkpoint", "timing_s/testing")
_JUDGING = (metrics.REWARD_DURATION, "timing_s/reward")

_PHASES = {
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

_TREND_STEPS = 12
_SLOWER = 2.5
_EACH_SLOWER = 1.5
_UNEVEN = 3.0
_AS_LONG = 1.2
"""Up to this factor, steps grew no more than their responses did."""
_LONGER = 1.5

KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    judge_findings = list(_judge_share(run))
    yield from judge_findings
    yield from _slow_first_step(run)
    yield from _slow_saving(run)
    if not judge_findings:
        yield from _slow_from_start(run)
    yield from _got_slower(run)


def _judge_share(run: LoggedRun) -> Iterator[Finding]:
    """Find steps that mostly wait for the judge: for a free slot, or for its replies."""
    step, call = run.series(metrics.STEP_TIME), run.series(metrics.JUDGE_LATENCY)
    if min(len(step), len(call), len(run.series(metrics.REWARD_DURATION))) < _JUDGE_STEPS:
        return
    judging, queue = waiting_for_rewards(run), run.series(metrics.SEMAPHORE_WAIT)
    share = late_level(judging.values, NEWEST) / max(late_level(step.values, NEWEST), 1e-9)
    call_s, wait_s = late_level(call.values, NEWEST), newest(run, metrics.SEMAPHORE_WAIT) or 0.0
    if share > _QUEUE_SHARE and wait_s >= max(_NOTICEABLE_S, call_s):
        limit = run.context.get("judge.max_concurrent")
        yield KINDS["judge_queue"].finding(
            run.case(_share_onset(judging, step, _QUEUE_SHARE)),
            run.evidence("wait for a judge slot", queue.step(-1), wait=wait_s, call=call_s),
            *_times(run),
            fixes=measured_fixes(run, KINDS["judge_queue"]),
            wait=format_seconds(wait_s),
            slot=f"one of {limit} slots" if limit is not None else "a free slot",
            call=format_seconds(call_s),
            share=percent(share),
            medians=f"medians of the last {min(NEWEST, len(queue))} steps",
        )
    elif share > _JUDGE_SHARE and call_s >= _NOTICEABLE_S:
        yield KINDS["judge_time"].finding(
            run.case(_share_onset(judging, step, _JUDGE_SHARE)),
            run.evidence("share of rewards in a step", call.step(-1), share=share, call=call_s),
            *_times(run),
            fixes=measured_fixes(run, KINDS["judge_time"]),
            call=format_seconds(call_s),
            share=percent(share),
            medians=f"medians of the last {min(NEWEST, len(call))} steps",
        )


def _share_onset(part: Series, step: Series, share: float) -> int:
    """Return the step since which ``part`` takes that share of every step, else its first step."""
    steps, of_part, of_step = np.intersect1d(part.steps, step.steps, return_indices=True)
    index = tail_start(part.values[of_part] > share * step.values[of_step], _JUDGE_STEPS)
    return part.step(0) if index is None else int(steps[index])


def _slow_first_step(run: LoggedRun) -> Iterator[Finding]:
    step = run.series(metrics.STEP_TIME)
    if len(step) < 5:
        return
    first, usual = float(step.values[0]), float(np.median(step.values[1:]))
    if first < 3 * usual or first - usual < 1.0:
        return
    onset = step.step(0)
    evidence = run.evidence("first step", onset, first=first, usual=usual)
    times = [format_seconds(first), format_seconds(usual)]
    kind = KINDS["slow_step.warm_up"]
    yield kind.finding(run.case(onset), evidence, first=times[0], usual=times[1])


def _plain_steps(run: LoggedRun) -> Series:
    """Return step times without saving, validation and the first step of each attempt."""
    step = run.series(metrics.STEP_TIME)
    occasional = [run.columns.get(name).at(step.steps) for name in _SOMETIMES]
    values = step.values - np.nan_to_num(sum(occasional, np.zeros(len(step))))
    keep = ~np.isin(step.steps, [start.first_step for start in run.context.starts])
    keep[:1] = False
    return Series(step.name, step.steps[keep], values[keep])


def _slow_saving(run: LoggedRun) -> Iterator[Finding]:
    """Find checkpoints that take a large share of the time between two of them."""
    saves, steps = run.series("timing_s/save_checkpoint"), _plain_steps(run)
    if len(saves) < 2 or len(steps) < 5:
        return
    every = float(np.median(np.diff(saves.steps)))
    cost, usual = float(np.median(saves.values)), float(np.median(steps.values))
    if usual <= 0:  # Steps that are shorter than their saves do not contain them.
        usual = float(np.median(run.series(metrics.STEP_TIME).values))
    if cost < _SAVE_S or (share := cost / (every * usual + cost)) < _SAVE_SHARE:
        return
    onset = saves.step(0)
    yield KINDS["slow_step.saving"].finding(
        run.case(onset),
        run.evidence("saving", onset, seconds=cost, every=every),
        share=percent(share),
        cost=format_seconds(cost),
        every=f"{every:g}",
        usual=format_seconds(usual),
    )


def _slow_from_start(run: LoggedRun) -> Iterator[Finding]:
    step = _usual_step(run)
    if step is None or step <= _SLOW_S:
        return
    phase, cost = _largest_phase(run)
    if cost <= _LARGEST_SHARE * step:
        largest = f"the largest phase is {_PHASES[phase]} with {percent(cost / step)}"
        yield KINDS["slow_overall"].finding(
            run.case(),
            Evidence(f"the median step is {format_seconds(step)}", values={"seconds": step}),
            *_times(run),
            step=format_seconds(step),
            largest=largest if cost else "the log has no times of its phases",
        )
        return
    is_judged = phase == metrics.REWARD_DURATION or (
        phase in _JUDGING and len(run.series(metrics.SEMAPHORE_WAIT)) > 0
    )
    kind, calls = _judge_calls(run) if is_judged else ("long", "")
    if phase in _JUDGING:
        fixes = measured_fixes(run, KINDS[f"slow_step.{'judge' if kind == 'long' else kind}"])
    else:
        fixes = KINDS.fixes(phase, run.case())
    share = f"{phase} is {format_seconds(cost)} of {format_seconds(step)}"
    yield KINDS[f"slow_step.{kind}"].finding(
        run.case(),
        run.evidence(share, seconds=cost, of=step),
        *_times(run),
        fixes=fixes,
        step=format_seconds(step),
        cost=format_seconds(cost),
        share=percent(min(1.0, cost / step)),
        phase=_PHASES[phase],
        calls=calls,
    )


def _times(run: LoggedRun) -> Iterator[Evidence]:
    """Yield the median of each of ``_TIMES`` that the log has, as one piece of evidence."""
    usual = {name: _usual(run.series(name)) for name in _TIMES}
    logged = {name: value for name, value in usual.items() if value is not None}
    if logged:
        text = ", ".join(f"{name} {format_seconds(value)}" for name, value in logged.items())
        yield Evidence(f"medians: {text}", run.context.path, values=logged)


def _usual(series: Series) -> float | None:
    """Return the median without the first step, which warms up; None for fewer than 2 values."""
    values = series.values
    if values.size < 2:
        return None
    return float(np.median(values[1:] if values.size > 2 else values))


def _usual_step(run: LoggedRun) -> float | None:
    """Return the seconds of a usual step; without step times, its GPU and reward phases."""
    if (step := _usual(run.series(metrics.STEP_TIME))) is not None:
        return step
    phases = [_usual(run.series(name)) for name in (metrics.GPU_PHASE, metrics.REWARD_DURATION)]
    logged = [phase for phase in phases if phase is not None]
    return sum(logged) if logged else None


def _largest_phase(run: LoggedRun) -> tuple[str, float]:
    """Return the phase that takes most of a usual step, and its seconds."""
    steps = len(run.first(metrics.STEP_TIME, metrics.GPU_PHASE, metrics.REWARD_DURATION))
    regular = [name for name in _PHASES if 2 * len(run.series(name)) >= steps]
    costs = {name: _usual(run.series(name)) or 0.0 for name in regular}
    costs[metrics.REWARD_DURATION] = _usual(waiting_for_rewards(run)) or 0.0
    if _usual(run.series(metrics.STEP_TIME)) is not None:
        # The GPU phase is the rest of a step beside the rewards: its parts are logged as well.
        costs.pop(metrics.GPU_PHASE, None)
    phase = max(costs, key=costs.__getitem__)
    return phase, costs[phase]


def _judge_calls(run: LoggedRun) -> tuple[str, str]:
    """Return whether the judge or its queue is slow, and the times of a call in words."""
    wait, call = (_usual(run.series(n)) for n in (metrics.SEMAPHORE_WAIT, metrics.JUDGE_LATENCY))
    if call is None:
        if wait is None or wait < _NOTICEABLE_S:
            return "judge", ""
        return "judge_queue", f" A call waits {format_seconds(wait)} for a free slot."
    if wait is None:
        return "judge", f" A call takes {format_seconds(call)}."
    waits, takes = format_seconds(wait), format_seconds(call)
    text = f" A call waits {waits} for a free slot and then takes {takes}."
    return "judge_queue" if wait >= call else "judge", text


def _got_slower(run: LoggedRun) -> Iterator[Finding]:
    steps = _plain_steps(run)
    slowdown = _find_slowdown(steps)
    if slowdown is not None:
        yield _slower(run, steps, slowdown)
    else:
        yield from _throughput(run)


class _Slowdown(NamedTuple):
    """Medians before the onset and now; the latter is that of the last ``width`` steps."""

    onset: int
    before: float
    now: float
    width: int


def _find_slowdown(steps: Series) -> _Slowdown | None:
    if len(steps) < _TREND_STEPS:
        return None
    values, width = steps.values, max(5, len(steps) // 10)
    base, last = values[: max(4, min(20, values.size // 5))], values[-width:]
    before, now = float(np.median(base)), float(np.median(last))
    if before <= 0 or now < _SLOWER * before or float(last.min()) < _EACH_SLOWER * before:
        return None
    if float(last.min()) <= float(base.max()) and float(base.max()) > _UNEVEN * before:
        return None  # The first steps were as uneven: a busy host, not a change.
    fast = np.flatnonzero(values < _EACH_SLOWER * before)
    return _Slowdown(steps.step(int(fast[-1]) + 1), before, now, width)


def _slower(run: LoggedRun, steps: Series, slowdown: _Slowdown) -> Finding:
    onset, (phase, old, new) = slowdown.onset, _most_grown_phase(run, slowdown.onset)
    evidence, phase_text = [run.change(steps, onset, "rose")], ""
    if phase:
        evidence.append(run.change(_phase(run, phase), onset, "rose"))
        phase_text = f" Most of it is {_PHASES.get(phase, phase)}: {format_seconds(old)} before, "
        phase_text += f"{format_seconds(new)} now (medians)."
    short, long = _levels(run.series(LENGTH), onset)
    length_text = ""
    if long > _LONGER * short:
        grew = f"from {figure(short)} to {figure(long)} tokens (medians)"
        length_text = f" Responses grew {grew}, which takes longer."
    step_before, step_now = _levels(steps, onset)
    growth = _AS_LONG * long / max(short, 1e-9)
    is_by_length = phase not in _JUDGING and step_now / max(step_before, 1e-9) <= growth
    finding_kind = KINDS[f"slower_{_kind_of_growth(run, phase, onset)}"]
    return finding_kind.finding(
        run.case(onset),
        *evidence,
        severity=Severity.INFO if is_by_length else None,
        confidence=None if phase else 0.6,
        fixes=measured_fixes(run, finding_kind),
        factor=f"{slowdown.now / slowdown.before:.1f}",
        before=format_seconds(slowdown.before),
        now=format_seconds(slowdown.now),
        width=slowdown.width,
        phase=phase_text,
        responses=length_text,
    )


def _most_grown_phase(run: LoggedRun, onset: int) -> tuple[str, float, float]:
    """Return the phase that gained most seconds, before and now; no name if none is logged."""
    best = ("", 0.0, 0.0)
    for name in (*metrics.STEP_PHASES, metrics.REWARD_DURATION):
        old, new = _levels(_phase(run, name), onset, skip=1)
        if new - old > best[2] - best[1]:
            best = (name, old, new)
    return best


def _phase(run: LoggedRun, name: str) -> Series:
    """Return the seconds of a phase; rewards that arrive during generation delay nothing."""
    return waiting_for_rewards(run) if name == metrics.REWARD_DURATION else run.series(name)


def _levels(series: Series, onset: int, skip: int = 0) -> tuple[float, float]:
    """Return the median before the onset, without the first ``skip`` values, and that of the last
    5 values since; NaN without values."""
    before, after = series.until(onset).values[skip:], series.since(onset).values
    old = float(np.median(before)) if before.size else float("nan")
    return old, late_level(after, 5) if after.size else float("nan")


def _kind_of_growth(run: LoggedRun, phase: str, onset: int) -> str:
    if phase in _JUDGING:
        names = metrics.SEMAPHORE_WAIT, metrics.JUDGE_LATENCY
        wait, call = (np.nan_to_num(_levels(run.series(name), onset)[1]) for name in names)
        return "judge_queue" if wait > call else "judge"
    return {"": "unknown", "timing_s/gen": "generation"}.get(phase, "training")


def _throughput(run: LoggedRun) -> Iterator[Finding]:
    """Find a lasting fall of tokens per second, if no step time is logged."""
    speed = run.series("perf/throughput")
    if len(run.series(metrics.STEP_TIME)) or len(speed) < _TREND_STEPS:
        return
    inverse = Series(speed.name, speed.steps[1:], 1 / np.maximum(speed.values[1:], 1e-9))
    slowdown = _find_slowdown(inverse)
    if slowdown is None:
        return
    onset, before, now, width = slowdown
    yield KINDS["slow_step.throughput"].finding(
        run.case(onset),
        run.change(speed, onset, "fell"),
        share=percent(before / now),
        before=figure(1 / before),
        now=figure(1 / now),
        width=width,
    )


RULE = Rule(check)
