"""Rules for steps that are slow from the start, get slower, or mostly wait for the judge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.judge_load import MORE_CALLS, more_calls, waiting_for_rewards
from engine.doctor.metrics.run import LENGTH, Run, Series, figure, percent
from engine.doctor.metrics.series_stats import late_level, tail_start
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Rule, Symptom
from engine.history import metrics

_SLOW_S = 300.0
_FEWEST = 2
_MOST = 0.5
_STEPS = 12
_SLOWER = 2.5
_EACH = 1.5
_BUSY = 3.0
_AS_LONG = 1.2
_JUDGE_STEPS = 3
_QUEUE_SHARE = 0.5
_JUDGE_SHARE = 0.8
_NOTICEABLE_S = 1.0
_ROLLOUT = "actor_rollout_ref.rollout"
_JUDGING = metrics.REWARD_DURATION, "timing_s/reward"
_SOMETIMES = ("timing_s/save_checkpoint", "timing_s/testing")

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
    metrics.REWARD_DURATION: "reward and judge",
    metrics.GPU_PHASE: "generation and training",
}

_TEST_JUDGE = Remedy("Test the judge on its own: the latency may be its server's")
_FASTER_JUDGE = Remedy(
    "Test the judge on its own; a smaller model or fewer answers per question are faster"
)
_CHECK_HOST = Remedy("Check the host for other processes, swapping and a full disk")
_CHECK_GPU = Remedy("Check the GPU for other processes and for a lower clock rate")
_IDLE_GPU = Remedy(
    "Check GPU utilization: offloading, a lower clock rate or another process slows it down"
)
_BASELINE = "own baseline; seed guide: which phase"
_GUIDE = "debug guide of GRubrics: more than 5 min a step"


def _shorter(context: MetricContext) -> Remedy:
    return fixes.scaled(
        context, fixes.RESPONSE, 0.5, "Shorten responses", "fewer tokens to generate"
    )


def _save_less_often(context: MetricContext) -> Remedy:
    effect = "less time spent saving"
    return fixes.scaled(context, "trainer.save_freq", 5, "Save less often", effect)


GOT_SLOWER = {
    kind: Symptom(
        id=f"slow_step.{kind}",
        severity=Severity.WARNING,
        also=(Severity.INFO,),
        title="Steps are {factor}x slower than at the start",
        cause="A step took {before} at first and takes {now} (median of the last {width} steps) "
        "since step {onset}.{phase}{responses}",
        shape=f"{seen}: the median of the last 5 steps (or a tenth of them) is 2.5 times the "
        "median of steps 2 to 21, and each of the last ones is slower than 1.5 times it",
        ruled_out="the first step of an attempt (compilation, workers); steps that validate or "
        "save; a slow host now and then (noise between steps is measured first); responses that "
        "grew alike (info: a token takes no longer than before)",
        remedies=remedies,
        confidence=0.8,
        source=_BASELINE,
    )
    for kind, seen, remedies in (
        (
            "judge",
            "rewards gained most, and calls take longer than they wait",
            lambda _: (_TEST_JUDGE, MORE_CALLS),
        ),
        (
            "judge_queue",
            "rewards gained most, and calls wait longer than they take",
            lambda _: (_TEST_JUDGE, MORE_CALLS),
        ),
        (
            "generation",
            "generation gained most",
            lambda case: (_shorter(case.context), _CHECK_GPU),
        ),
        ("training", "a phase of training gained most", lambda _: (_CHECK_HOST,)),
        ("unknown", "no phase is logged", lambda _: (_CHECK_HOST,)),
    )
}
THROUGHPUT = Symptom(
    id="slow_step.throughput",
    severity=Severity.WARNING,
    title="Throughput fell to {share} of what it was",
    cause="{before} tokens/s at first, {now} (median of the last {width} steps) since step "
    "{onset}.",
    shape="tokens per second fall as step times would rise, in a log without step times",
    remedies=lambda _: (_CHECK_HOST,),
    confidence=0.6,
    source="own baseline",
)
SLOW_FIRST_STEP = Symptom(
    id="slow_step.warm_up",
    severity=Severity.INFO,
    title="The first step was slow",
    cause="The first step took {first} and the others take {usual} (median): workers start and "
    "kernels are compiled. The baseline excludes it.",
    shape="a first step of three times the median of the others, and a second more",
    source="own baseline",
)
SAVING = Symptom(
    id="slow_step.saving",
    severity=Severity.WARNING,
    title="Checkpointing takes {share} of the time",
    cause="A checkpoint takes {cost} every {every} steps of {usual} (medians).",
    shape="saving takes a fifth of the time between two checkpoints, and 5 s at least",
    remedies=lambda case: (_save_less_often(case.context),),
    source="production history: a save that took as long as 3.7 steps",
)
SLOW = {
    kind: Symptom(
        id=f"slow_step.{kind}",
        severity=Severity.WARNING,
        title="A step takes {step}",
        cause="The median step takes {step}, from the start; more than 5 minutes is slow for a run "
        "that somebody watches. {cost} of it ({share}) is {phase}.{calls}",
        shape=f"a median step of more than five minutes, more than half of it in one phase{seen}",
        ruled_out="phases of few steps (a checkpoint every 50), the first step, and steps that a "
        "rule on the judge's share names already. Where a log has no step time, a step is its GPU "
        "phase and its reward phase together (`STEP_TIMING` lines)",
        remedies=remedies,
        confidence=0.6,
        source=_GUIDE,
    )
    for kind, seen, remedies in (
        ("judge", ", rewards", lambda _: (_TEST_JUDGE, MORE_CALLS)),
        (
            "judge_queue",
            ", rewards, whose calls wait longer than they take",
            lambda _: (MORE_CALLS, _TEST_JUDGE),
        ),
        ("long", "", lambda _: (_IDLE_GPU,)),
    )
}
SLOW_OVERALL = Symptom(
    id="slow_step.long",
    severity=Severity.INFO,
    title="A step takes {step}",
    cause="The median step takes {step}, from the start; more than 5 minutes is slow for a run "
    "that somebody watches. No phase takes half of it: {largest}.",
    shape="a median step of more than five minutes, of which no phase takes half",
    remedies=lambda _: (
        Remedy("Use fewer prompts or rollouts per step, if the step size is larger than needed"),
        _IDLE_GPU,
    ),
    confidence=0.6,
    source=_GUIDE,
)
JUDGE_QUEUE = Symptom(
    id="slow_step.judge_queue",
    severity=Severity.WARNING,
    title="Judge queue wait dominates the step time",
    cause="A call waits {wait} for {slot} and then takes {call}; rewards take {share} of a step "
    "({medians}).",
    shape="over the last 3 steps and more, rewards take more than half of a step, and a call waits "
    "a second and longer than it then takes",
    ruled_out="a judge that is slow beside generation that is slower; rewards that arrive while "
    "other rollouts are generated",
    remedies=lambda _: (MORE_CALLS,),
    source="seed guide: a high `semaphore_wait` means that the concurrency is the bottleneck",
)
JUDGE_TIME = Symptom(
    id="slow_step.judge",
    severity=Severity.WARNING,
    title="{share} of step time is judge time",
    cause="A judge call takes {call}, and rewards take {share} of a step ({medians}): the GPU is "
    "idle meanwhile.",
    shape="rewards take four fifths of a step, with calls of a second and more",
    ruled_out="rewards that arrive while other rollouts are generated",
    remedies=lambda _: (MORE_CALLS, _FASTER_JUDGE),
    source="seed guide: which phase",
)


def check(run: Run) -> Iterator[Finding]:
    by_judge = list(_judge_share(run))
    yield from by_judge
    steps = _plain_steps(run)
    slower = _slowdown(steps)
    if slower is not None:
        yield _slower(run, steps, *slower)
    else:
        yield from _throughput(run)
    yield from _warm_up(run)
    yield from _saving(run)
    if not by_judge:
        yield from _slow_from_start(run)


def _judge_share(run: Run) -> Iterator[Finding]:
    """Steps that mostly wait for the judge: for a free slot, or for its replies."""
    wait, step = run.series(metrics.SEMAPHORE_WAIT), run.series(metrics.STEP_TIME)
    call, total = run.series(metrics.JUDGE_LATENCY), run.series(metrics.REWARD_DURATION)
    if min(len(call), len(step), len(total)) < _JUDGE_STEPS:
        return
    waiting = waiting_for_rewards(run)
    share = _newest(waiting) / max(_newest(step), 1e-9)
    call_s, wait_s = _newest(call), _newest(wait)
    if share > _QUEUE_SHARE and wait_s >= max(_NOTICEABLE_S, call_s):
        limit = run.context.get("judge.max_concurrent")
        yield JUDGE_QUEUE.finding(
            run.case(_since(waiting, step, _QUEUE_SHARE)),
            run.evidence("wait for a judge slot", wait.step(-1), wait=wait_s, call=call_s),
            remedies=(more_calls(run),),
            wait=seconds(wait_s),
            slot=f"one of {limit} slots" if limit is not None else "a free slot",
            call=seconds(call_s),
            share=percent(share),
            medians=_medians(wait),
        )
    elif share > _JUDGE_SHARE and call_s >= _NOTICEABLE_S:
        yield JUDGE_TIME.finding(
            run.case(_since(waiting, step, _JUDGE_SHARE)),
            run.evidence("share of rewards in a step", call.step(-1), share=share, call=call_s),
            remedies=(more_calls(run), _FASTER_JUDGE),
            call=seconds(call_s),
            share=percent(share),
            medians=_medians(call),
        )


def _since(total: Series, step: Series, share: float) -> int:
    """Since when rewards take that share of every step; else the first step that has them."""
    steps, of_total, of_step = np.intersect1d(total.steps, step.steps, return_indices=True)
    large = total.values[of_total] > share * step.values[of_step]
    place = tail_start(large, _JUDGE_STEPS)
    return int(steps[place]) if place is not None else total.step(0)


def _newest(series: Series) -> float:
    return float(np.median(series.values[-10:])) if len(series) else 0.0


def _medians(series: Series) -> str:
    return f"medians of the last {min(10, len(series))} steps"


def _plain_steps(run: Run) -> Series:
    """Step times without occasional work and without the first step of an attempt."""
    series = run.series(metrics.STEP_TIME)
    extra = sum(
        (run.columns.get(name).at(series.steps) for name in _SOMETIMES), np.zeros(len(series))
    )
    first = {start.first_step for start in run.context.starts}
    keep = np.array([step not in first for step in series.steps.tolist()], dtype=bool)
    if keep.size:
        keep[0] = False
    return Series(series.name, series.steps[keep], (series.values - np.nan_to_num(extra))[keep])


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
    """How many of the newest steps show the present level."""
    return max(5, len(steps) // 10)


def _slower(run: Run, steps: Series, onset: int, before: float, now: float) -> Finding:
    phase, was, grown = _grown(run, onset)
    is_by_length = phase not in _JUDGING and _is_by_length(run, steps, onset)
    symptom = GOT_SLOWER[_kind_of_growth(run, phase, onset)]
    evidence = [run.change(steps, onset, "rose")]
    text = ""
    if phase:
        evidence.append(run.change(_phase(run, phase), onset, "rose"))
        text = f" Most of it is {_PHASES.get(phase, phase)}: {seconds(was)} before, "
        text += f"{seconds(grown)} now (medians)."
    return symptom.finding(
        run.case(onset),
        *evidence,
        severity=Severity.INFO if is_by_length else None,
        confidence=None if phase else 0.6,
        remedies=(_TEST_JUDGE, more_calls(run)) if phase in _JUDGING else None,
        factor=f"{now / before:.1f}",
        before=seconds(before),
        now=seconds(now),
        width=_last(steps),
        onset=onset,
        phase=text,
        responses=_longer_responses(run, onset),
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
    """Its seconds in a step; rewards that arrive during generation delay nothing."""
    return waiting_for_rewards(run) if name == metrics.REWARD_DURATION else run.series(name)


def _kind_of_growth(run: Run, phase: str, onset: int) -> str:
    if not phase:
        return "unknown"
    if phase not in _JUDGING:
        return "generation" if phase == "timing_s/gen" else "training"
    wait, call = run.series(metrics.SEMAPHORE_WAIT), run.series(metrics.JUDGE_LATENCY)
    return "judge_queue" if _level_since(wait, onset) > _level_since(call, onset) else "judge"


def _level_since(series: Series, onset: int) -> float:
    values = series.since(onset).values
    return float(np.median(values[-5:])) if values.size else 0.0


def _longer_responses(run: Run, onset: int) -> str:
    length = run.series(LENGTH)
    before, after = length.until(onset).values, length.since(onset).values
    if before.size and after.size:
        was, now = float(np.median(before)), float(np.median(after[-5:]))
        if now > 1.5 * was:
            grew = f"from {figure(was)} to {figure(now)} tokens (medians)"
            return f" Responses grew {grew}, which takes longer."
    return ""


def _is_by_length(run: Run, steps: Series, onset: int) -> bool:
    """Whether responses grew at least as much as their steps: no token takes longer."""
    growth = [
        late_level(series.since(onset).values, 5) / max(float(np.median(before)), 1e-9)
        for series in (steps, run.series(LENGTH))
        if (before := series.until(onset).values).size and len(series.since(onset))
    ]
    return len(growth) == 2 and growth[0] <= _AS_LONG * growth[1]


def _throughput(run: Run) -> Iterator[Finding]:
    """Tokens per second where no step time is logged; a step of fewer tokens is not slower."""
    speed = run.series("perf/throughput")
    if len(run.series(metrics.STEP_TIME)) or len(speed) < _STEPS:
        return
    inverse = Series(speed.name, speed.steps[1:], 1 / np.maximum(speed.values[1:], 1e-9))
    slower = _slowdown(inverse)
    if slower is None:
        return
    onset, before, now = slower
    yield THROUGHPUT.finding(
        run.case(onset),
        run.change(speed, onset, "fell"),
        share=percent(before / now),
        before=figure(1 / before),
        now=figure(1 / now),
        width=_last(inverse),
        onset=onset,
    )


def _warm_up(run: Run) -> Iterator[Finding]:
    series = run.series(metrics.STEP_TIME)
    if len(series) < 5:
        return
    first, usual = float(series.values[0]), float(np.median(series.values[1:]))
    if first < 3 * usual or first - usual < 1.0:
        return
    onset = series.step(0)
    seen = run.evidence("first step", onset, first=first, usual=usual)
    yield SLOW_FIRST_STEP.finding(run.case(onset), seen, first=seconds(first), usual=seconds(usual))


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
    onset = saves.step(0)
    yield SAVING.finding(
        run.case(onset),
        run.evidence("saving", onset, seconds=cost, every=every),
        share=percent(share),
        cost=seconds(cost),
        every=f"{every:g}",
        usual=seconds(usual),
    )


def _slow_from_start(run: Run) -> Iterator[Finding]:
    step = step_seconds(run)
    if step is None or step <= _SLOW_S:
        return
    phase, cost = _largest_phase(run)
    if cost <= _MOST * step:
        largest = f"the largest phase is {_PHASES[phase]} with {percent(cost / step)}"
        yield SLOW_OVERALL.finding(
            run.case(),
            Evidence(f"the median step is {seconds(step)}", values={"seconds": step}),
            step=seconds(step),
            largest=largest if cost else "the log has no times of its phases",
        )
        return
    kind = _kind(run, phase)
    yield SLOW[kind].finding(
        run.case(),
        run.evidence(f"{phase} is {seconds(cost)} of {seconds(step)}", seconds=cost, of=step),
        remedies=_remedies(run, phase),
        step=seconds(step),
        cost=seconds(cost),
        share=percent(min(1.0, cost / step)),
        phase=_PHASES[phase],
        calls=_calls(run, phase),
    )


def _kind(run: Run, phase: str) -> str:
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
    """The median without the first step, which warms up."""
    values = series.values
    if values.size < _FEWEST:
        return None
    return float(np.median(values[1:] if values.size > _FEWEST else values))


def _largest_phase(run: Run) -> tuple[str, float]:
    steps = len(run.first(metrics.STEP_TIME, metrics.GPU_PHASE, metrics.REWARD_DURATION))
    usual = [name for name in _PHASES if 2 * len(run.series(name)) >= steps]
    costs = {name: _median(run, name) or 0.0 for name in usual}
    costs[metrics.REWARD_DURATION] = _typical(waiting_for_rewards(run)) or 0.0
    if _median(run, metrics.STEP_TIME) is not None:
        # It is the rest of a step beside the rewards: its parts are logged as well.
        costs.pop(metrics.GPU_PHASE, None)
    phase = max(costs, key=costs.__getitem__)
    return phase, costs[phase]


def _remedies(run: Run, phase: str) -> tuple[Remedy, ...]:
    context = run.context
    if phase in _JUDGING:
        queued = _kind(run, phase) == "judge_queue"
        return (more_calls(run), _TEST_JUDGE) if queued else (_TEST_JUDGE, more_calls(run))
    if phase == "timing_s/gen":
        key, title = f"{_ROLLOUT}.gpu_memory_utilization", "Give the rollout engine more GPU memory"
        return _shorter(context), fixes.setting(context, key, 0.8, title, "more sequences at once")
    if phase == "timing_s/save_checkpoint":
        return (_save_less_often(context),)
    if phase == "timing_s/testing":
        title, effect = "Validate less often", "less time spent on validation"
        return (fixes.scaled(context, "trainer.test_freq", 5, title, effect),)
    key = f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu"
    if phase in ("timing_s/update_actor", "timing_s/update_critic"):
        key = f"{fixes.ACTOR}.ppo_micro_batch_size_per_gpu"
    use, title = f"{fixes.ACTOR}.use_dynamic_bsz", "Pack micro batches by tokens"
    return (
        fixes.scaled(context, key, 2, "Use larger micro batches", "fewer, fuller passes"),
        fixes.setting(context, use, True, title, "no pass is mostly padding"),
        _IDLE_GPU,
    )


RULE = Rule(check)
