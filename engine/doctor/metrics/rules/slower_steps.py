"""Rules for steps that become slower, and for throughput that falls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.base.text import seconds
from engine.doctor.metrics.judge_load import measured_fixes, waiting_for_rewards
from engine.doctor.metrics.rules.slow_steps import JUDGING, PHASES, plain_steps
from engine.doctor.metrics.run import LENGTH, Run, Series, figure, percent
from engine.doctor.metrics.series_stats import late_level
from engine.findings.finding import Finding, Severity
from engine.findings.symptom import Rule
from engine.findings.symptom_file import Symptoms
from engine.history import metrics

_STEPS = 12
_SLOWER = 2.5
_EACH_SLOWER = 1.5
_UNEVEN = 3.0
_AS_LONG = 1.2
"""Up to this factor, steps grew no more than their responses did."""
_LONGER = 1.5

SYMPTOMS = Symptoms(__file__)


def check(run: Run) -> Iterator[Finding]:
    steps = plain_steps(run)
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
    if len(steps) < _STEPS:
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


def _slower(run: Run, steps: Series, slowdown: _Slowdown) -> Finding:
    onset, (phase, old, new) = slowdown.onset, _most_grown_phase(run, slowdown.onset)
    evidence, phase_text = [run.change(steps, onset, "rose")], ""
    if phase:
        evidence.append(run.change(_phase(run, phase), onset, "rose"))
        phase_text = f" Most of it is {PHASES.get(phase, phase)}: {seconds(old)} before, "
        phase_text += f"{seconds(new)} now (medians)."
    short, long = _levels(run.series(LENGTH), onset)
    length_text = ""
    if long > _LONGER * short:
        grew = f"from {figure(short)} to {figure(long)} tokens (medians)"
        length_text = f" Responses grew {grew}, which takes longer."
    step_before, step_now = _levels(steps, onset)
    growth = _AS_LONG * long / max(short, 1e-9)
    is_by_length = phase not in JUDGING and step_now / max(step_before, 1e-9) <= growth
    symptom = SYMPTOMS[f"slow_step.{_kind_of_growth(run, phase, onset)}"]
    return symptom.finding(
        run.case(onset),
        *evidence,
        severity=Severity.INFO if is_by_length else None,
        confidence=None if phase else 0.6,
        remedies=measured_fixes(run, symptom),
        factor=f"{slowdown.now / slowdown.before:.1f}",
        before=seconds(slowdown.before),
        now=seconds(slowdown.now),
        width=slowdown.width,
        phase=phase_text,
        responses=length_text,
    )


def _most_grown_phase(run: Run, onset: int) -> tuple[str, float, float]:
    """Return the phase that gained most seconds, before and now; no name if none is logged."""
    best = ("", 0.0, 0.0)
    for name in (*metrics.STEP_PHASES, metrics.REWARD_DURATION):
        old, new = _levels(_phase(run, name), onset, skip=1)
        if new - old > best[2] - best[1]:
            best = (name, old, new)
    return best


def _phase(run: Run, name: str) -> Series:
    """Return the seconds of a phase; rewards that arrive during generation delay nothing."""
    return waiting_for_rewards(run) if name == metrics.REWARD_DURATION else run.series(name)


def _levels(series: Series, onset: int, skip: int = 0) -> tuple[float, float]:
    """Return the median before the onset, without the first ``skip`` values, and that of the last
    5 values since; NaN without values."""
    before, after = series.until(onset).values[skip:], series.since(onset).values
    old = float(np.median(before)) if before.size else float("nan")
    return old, late_level(after, 5) if after.size else float("nan")


def _kind_of_growth(run: Run, phase: str, onset: int) -> str:
    if phase in JUDGING:
        names = metrics.SEMAPHORE_WAIT, metrics.JUDGE_LATENCY
        wait, call = (np.nan_to_num(_levels(run.series(name), onset)[1]) for name in names)
        return "judge_queue" if wait > call else "judge"
    return {"": "unknown", "timing_s/gen": "generation"}.get(phase, "training")


def _throughput(run: Run) -> Iterator[Finding]:
    """Find a lasting fall of tokens per second, if no step time is logged."""
    speed = run.series("perf/throughput")
    if len(run.series(metrics.STEP_TIME)) or len(speed) < _STEPS:
        return
    inverse = Series(speed.name, speed.steps[1:], 1 / np.maximum(speed.values[1:], 1e-9))
    slowdown = _find_slowdown(inverse)
    if slowdown is None:
        return
    onset, before, now, width = slowdown
    yield SYMPTOMS["slow_step.throughput"].finding(
        run.case(onset),
        run.change(speed, onset, "fell"),
        share=percent(before / now),
        before=figure(1 / before),
        now=figure(1 / now),
        width=width,
    )


RULE = Rule(check)
