"""Steps that take too long, measured against the run's own first steps.

Shape: the median of the last 5 steps (or a tenth of them) is 2.5 times the median of steps 2 to
21, and each of the last ones is slower than 1.5 times it. The phase that grew most is named.
Ruled out: the first step of an attempt (warm-up: compilation, workers), steps that validate or
save, a slow host now and then (noise between steps is measured first), responses that grew
alike (info: a token takes no longer than before).
Source: seed guide (which phase: ``gpu_phase``, ``reward_total``, ``semaphore_wait``), own baseline
in place of its fixed 30 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.judge_limit import more_calls
from engine.doctor.metrics.rules.judge_share import waiting_for_rewards
from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.doctor.metrics.series_stats import late
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_STEPS = 12
_SLOWER = 2.5
_EACH = 1.5
_BUSY = 3.0
_AS_LONG = 1.2
_JUDGING = metrics.REWARD_DURATION, "timing_s/reward"

_WORDS = {
    "timing_s/gen": "generation",
    metrics.REWARD_DURATION: "reward and judge",
    "timing_s/reward": "reward",
    "timing_s/old_log_prob": "log-probabilities",
    "timing_s/ref": "reference log-probabilities",
    "timing_s/update_actor": "the actor's update",
    "timing_s/update_critic": "the critic's update",
    "timing_s/update_weights": "weight sync",
    "timing_s/save_checkpoint": "saving checkpoints",
    "timing_s/testing": "validation",
}


def check(run: Run) -> Iterator[Finding]:
    steps = _plain_steps(run)
    slower = _slowdown(steps)
    if slower is not None:
        yield _slower(run, steps, *slower)
    else:
        yield from _throughput(run)
    yield from _warm_up(run)
    yield from _saving(run)


def _plain_steps(run: Run) -> Series:
    """Step times without what is done now and then, and without the first step of an attempt."""
    series = run.series(metrics.STEP_TIME)
    extra = sum(
        (run.columns.get(name).at(series.steps) for name in _SOMETIMES), np.zeros(len(series))
    )
    first = {start.first_step for start in run.context.starts}
    keep = np.array([step not in first for step in series.steps.tolist()], dtype=bool)
    if keep.size:
        keep[0] = False
    return Series(series.name, series.steps[keep], (series.values - np.nan_to_num(extra))[keep])


_SOMETIMES = ("timing_s/save_checkpoint", "timing_s/testing")


def _slowdown(steps: Series) -> tuple[int, float, float] | None:
    """``(step, before, now)`` of a lasting slowdown."""
    if len(steps) < _STEPS:
        return None
    values = steps.values
    base = values[: max(4, min(20, values.size // 5))]
    before, last = float(np.median(base)), values[-_last(steps) :]
    now = float(np.median(last))
    if before <= 0 or now < _SLOWER * before or float(last.min()) < _EACH * before:
        return None
    if float(last.min()) <= float(base.max()) and float(base.max()) > _BUSY * before:
        return None  # It was as uneven at the beginning: a busy host, not a change.
    fast = np.flatnonzero(values < _EACH * before)
    return steps.step(int(fast[-1]) + 1), before, now


def _last(steps: Series) -> int:
    """How many of the newest steps tell what it is like by the end."""
    return max(5, len(steps) // 10)


def _slower(run: Run, steps: Series, onset: int, before: float, now: float) -> Finding:
    phase, was, grown = _grown(run, onset)
    is_by_length = phase not in _JUDGING and _is_by_length(run, steps, onset)
    where = f" Most of it is {_WORDS.get(phase, phase)}: {seconds(was)} before, " if phase else ""
    detail = f"{seconds(grown)} now (medians)." if phase else ""
    evidence = [run.change(steps, onset, "rose")]
    if phase:
        evidence.append(run.change(_phase(run, phase), onset, "rose"))
    return Finding(
        f"slow_step.{_kind(run, phase, onset)}",
        Severity.INFO if is_by_length else Severity.WARNING,
        f"Steps take {now / before:.1f} times as long as at first",
        f"A step took {seconds(before)} at first and takes {seconds(now)} (median of the last "
        f"{_last(steps)} steps) since step {onset}.{where}{detail}{_longer_answers(run, onset)}",
        tuple(evidence),
        _remedies(run, phase),
        onset,
        confidence=0.8 if phase else 0.6,
        source="own baseline; seed guide: which phase",
    )


def _grown(run: Run, onset: int) -> tuple[str, float, float]:
    """The phase that gained most seconds; an empty name when none is logged."""
    best = ("", 0.0, 0.0)
    for name in (*metrics.STEP_PHASES, metrics.REWARD_DURATION):
        series = _phase(run, name)
        before, after = series.until(onset).values, series.since(onset).values
        if before.size < 2 or not after.size:
            continue
        was, now = float(np.median(before[1:])), float(np.median(after[-5:]))
        if now - was > best[2] - best[1]:
            best = (name, was, now)
    return best


def _phase(run: Run, name: str) -> Series:
    """What a step spends there; rewards that come in during generation keep nothing waiting."""
    return waiting_for_rewards(run) if name == metrics.REWARD_DURATION else run.series(name)


def _kind(
    run: Run, phase: str, onset: int
) -> Literal["judge", "judge_queue", "generation", "training", "unknown"]:
    if not phase:
        return "unknown"
    if phase not in _JUDGING:
        return "generation" if phase == "timing_s/gen" else "training"
    wait, call = run.series(metrics.SEMAPHORE_WAIT), run.series(metrics.JUDGE_LATENCY)
    return "judge_queue" if _now(wait, onset) > _now(call, onset) else "judge"


def _now(series: Series, onset: int) -> float:
    values = series.since(onset).values
    return float(np.median(values[-5:])) if values.size else 0.0


def _longer_answers(run: Run, onset: int) -> str:
    length = run.series("response_length/mean")
    before, after = length.until(onset).values, length.since(onset).values
    if before.size and after.size:
        was, now = float(np.median(before)), float(np.median(after[-5:]))
        if now > 1.5 * was:
            grew = f"from {figure(was)} to {figure(now)} tokens (medians)"
            return f" Responses grew {grew}, which costs time."
    return ""


def _is_by_length(run: Run, steps: Series, onset: int) -> bool:
    """Whether responses grew at least as much as their steps: no token takes longer."""
    growth = [
        late(series.since(onset).values, 5) / max(float(np.median(before)), 1e-9)
        for series in (steps, run.series("response_length/mean"))
        if (before := series.until(onset).values).size and len(series.since(onset))
    ]
    return len(growth) == 2 and growth[0] <= _AS_LONG * growth[1]


def _remedies(run: Run, phase: str) -> tuple[Remedy, ...]:
    if phase in _JUDGING:
        return (
            Remedy("Test the judge alone: its latency may be its server's"),
            more_calls(run),
        )
    if phase == "timing_s/gen":
        return (
            cures.scaled(run.context, cures.RESPONSE, 0.5, "Shorter responses", "less to generate"),
            Remedy("Check the GPU for other processes and for a lower clock"),
        )
    return (Remedy("Check the host for other processes, swap and a full disk"),)


def _throughput(run: Run) -> Iterator[Finding]:
    """Tokens a second where no step time is logged; fewer tokens a step are no fault of speed."""
    speed = run.series("perf/throughput")
    if len(run.series(metrics.STEP_TIME)) or len(speed) < _STEPS:
        return
    inverse = Series(speed.name, speed.steps[1:], 1 / np.maximum(speed.values[1:], 1e-9))
    found = _slowdown(inverse)
    if found is None:
        return
    onset, before, now = found
    yield Finding(
        "slow_step.throughput",
        Severity.WARNING,
        f"Throughput fell to {percent(before / now)} of what it was",
        f"{figure(1 / before)} tokens a second at first, {figure(1 / now)} (median of the last "
        f"{_last(inverse)} steps) since step {onset}.",
        (run.change(speed, onset, "fell"),),
        _remedies(run, ""),
        onset,
        confidence=0.6,
        source="own baseline",
    )


def _warm_up(run: Run) -> Iterator[Finding]:
    series = run.series(metrics.STEP_TIME)
    if len(series) < 5:
        return
    first, usual = float(series.values[0]), float(np.median(series.values[1:]))
    if first < 3 * usual or first - usual < 1.0:
        return
    yield Finding(
        "slow_step.warm_up",
        Severity.INFO,
        "The first step was slow",
        f"The first step took {seconds(first)} and the others take {seconds(usual)} (median): "
        "workers start and kernels are compiled. It is not counted in the baseline.",
        (run.seen("first step", series.step(0), first=first, usual=usual),),
        onset_step=series.step(0),
        source="own baseline",
    )


def _saving(run: Run) -> Iterator[Finding]:
    """A checkpoint that takes a large share of the time between two of them."""
    saves, steps = run.series("timing_s/save_checkpoint"), _plain_steps(run)
    if len(saves) < 2 or len(steps) < 5:
        return
    every = float(np.median(np.diff(saves.steps)))
    cost, usual = float(np.median(saves.values)), float(np.median(steps.values))
    share = cost / (every * usual + cost)
    if share < 0.2 or cost < 5.0:
        return
    yield Finding(
        "slow_step.saving",
        Severity.WARNING,
        f"Saving takes {percent(share)} of the time",
        f"A checkpoint takes {seconds(cost)} every {every:g} steps of {seconds(usual)} (medians).",
        (run.seen("saving", saves.step(0), seconds=cost, every=every),),
        (
            cures.scaled(
                run.context, "trainer.save_freq", 5, "Save less often", "less time spent saving"
            ),
        ),
        saves.step(0),
        source="production history: a save of 3.7 steps",
    )
