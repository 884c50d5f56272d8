"""Rules for updates that are too large: KL, gradients or the loss diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure, find_onset, learning_rate
from engine.doctor.metrics.series_stats import (
    healthy_levels,
    late_level,
    longest_stretch,
    noise,
    smooth,
    trend,
)
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Case, Rule, Symptom
from engine.history import metrics

KLS = {"actor/kl_loss": 1.0, "actor/ppo_kl": 0.5, "objective/kl": 100.0}
"""A high KL, in nats per token. ``ppo_kl`` is the distance of one update; ``objective/kl`` is TRL's
sum over a response, as is the KL that KTO logs."""
_PREFERENCES = ("rewards/chosen", "logps/chosen")
_GROWTH = 5.0
_JITTER = 5.0
_GRADIENT = 10.0
_LARGE_NORM, _GRAVE_NORM = 3.0, 10.0
_SPIKE = 30.0
_SPIKES, _SPIKE_SHARE = 3, 0.001
_HIGH, _HUGE, _WILD = 100.0, 1000.0, 0.25
_RISES = 3
_CLIMB_STEPS, _CLIMB, _CLIMB_NOISE, _CLIMB_TREND = 10, 1.1, 5.0, 0.6
_LARGE_LOSS = 20.0
_HIGHEST_RATE = 1e-2
_OF_HIGH_RATES = ("loss_nan", "kl_or_grad_blowup", "collapse_entropy_or_length", "reward_zero")
"""Beginnings of the findings that a learning rate may explain."""


def _smaller_updates(case: Case) -> tuple[Remedy, ...]:
    return (
        fixes.lower_rate(case.context),
        fixes.clip_gradients(case.context),
        *fixes.earlier_checkpoint(case),
    )


KL_GREW = Symptom(
    id="kl_or_grad_blowup.kl",
    title="KL grew to {now}",
    cause="The KL distance to the {other} was {first} at first and is {now} (median of the last 3 "
    "steps) since about step {onset}: the policy moves away from it too fast, usually because "
    "updates are too large.",
    shape="a KL above 1 nat per token (0.5 for a single update) and five times its early level, to "
    "the last step",
    ruled_out="a KL that was as high from the start (a distance to another model, as in "
    "distillation); sums over tokens (`actor/reward_kl_penalty`, the `kl` of KTO), which are "
    "high above 100",
    remedies=lambda case: (
        fixes.lower_rate(case.context),
        fixes.add_kl_loss(case.context),
        fixes.clip_gradients(case.context),
        *fixes.earlier_checkpoint(case),
    ),
    source="failure classes: kl above 1 and growing",
)
HUGE_GRADIENT = Symptom(
    id="kl_or_grad_blowup.huge",
    severity=Severity.WARNING,
    title="Gradient norm is {now}",
    cause="The gradient norm is at least {now} ({when}). Clipping at 1 keeps only its direction; "
    "without clipping, one update ruins the weights. Losses that are summed instead of averaged, "
    "or weights that are already broken, look like this.",
    shape="a gradient norm in the thousands at the end, or in the hundreds in a quarter of the "
    "steps of each half with one in the thousands",
    ruled_out="a gradient norm that falls: it is often large in the first steps",
    remedies=lambda case: (fixes.clip_gradients(case.context), fixes.lower_rate(case.context)),
    confidence=0.7,
    source="failure classes: grad_norm in the hundreds",
)
GRADIENT_GREW = Symptom(
    id="kl_or_grad_blowup.gradient",
    also=(Severity.WARNING,),
    title="Gradients grew to {now}",
    cause="The gradient norm was {level} {when} and is {now} (median of the last 3 steps) since "
    "about step {onset}: training diverges. Clipping protects the weights only for a while.",
    shape="a gradient norm of ten times its early level for 3 steps to the end, and above 10 (an "
    "error) or 3 (a warning); compared with the first three values and the lowest lasting level "
    "as well, since a run that diverges at once has a high early level",
    ruled_out="one spike; jitter of that size; rewards that become less sparse, which also raise "
    "gradients",
    remedies=_smaller_updates,
    source="failure classes: grad_norm in the hundreds",
)
SPIKES = Symptom(
    id="kl_or_grad_blowup.spikes",
    severity=Severity.WARNING,
    title="{count} gradient spikes",
    cause="{count} steps have a gradient norm above {factor} times the median {middle}, up to "
    "{highest} (steps {steps}): single batches move the weights far.",
    shape="at least three gradient norms of more than 30 times the median; in a long run, one in a "
    "thousand steps",
    ruled_out="a single spike",
    remedies=lambda case: (
        fixes.clip_gradients(case.context),
        fixes.lower_rate(case.context, 0.3),
        Remedy("Inspect the rows of those batches: overlong, empty or duplicated texts?"),
    ),
    confidence=0.8,
    source="own baseline: 30 medians",
)
LOSS_GREW = Symptom(
    id="kl_or_grad_blowup.loss",
    title="Loss exploded to {now}",
    cause="The loss was {level} {when} and is {now} (median of the last 3 steps) since about step "
    "{onset}: the updates are too large for this model.",
    shape="a training loss of three times its early level, and at least 1 above it, to the end",
    ruled_out="policy losses, which have no meaningful level",
    remedies=_smaller_updates,
    source="own baseline: three times the early loss",
)
LOSS_RISES = Symptom(
    id="kl_or_grad_blowup.loss_rises",
    title="Loss rises steadily, to {now}",
    cause="The loss was {before} at first and is {now} at the end (medians of {width} steps): "
    "training makes the model worse with every step.{uphill}",
    shape="a cross-entropy that climbs steadily, by a tenth and by five times its jitter",
    ruled_out="policy and preference losses; runs with a reward or a KL",
    remedies=lambda case: (
        fixes.lower_rate(case.context),
        Remedy("Restart from the initial model: every later checkpoint is worse"),
    ),
    confidence=0.8,
    source="a cross-entropy falls if it is minimized",
)
POLICY_LOSS_GREW = Symptom(
    id="kl_or_grad_blowup.policy_loss",
    severity=Severity.WARNING,
    title="Policy loss grew to {now}",
    cause="The size of the policy loss grew from {before} to {now} in {count} steps from step "
    "{onset} on. Rewards may still look good: this appears a few steps before a collapse.",
    shape="a policy loss that grows by more than half three times in a row, to ten times its size "
    "and above 20",
    remedies=lambda case: (fixes.lower_rate(case.context), fixes.clip_gradients(case.context)),
    confidence=0.8,
    source="hardening guide's logs: 6.8, 11, 19, 57, 215, then collapse",
)

RATE_LOGGED = Symptom(
    id="kl_or_grad_blowup.rate_logged",
    severity=Severity.WARNING,
    title="Learning rate {rate} is too high",
    cause="The log has a learning rate of {rate}. Language models are trained with 1e-6 to 1e-4, "
    "small ones and adapters with up to 3e-3: at this rate the first updates destroy the weights.",
    shape="a logged learning rate above 1e-2 in a run that diverges, collapses or earns nothing",
    ruled_out="a run that is well at that rate",
    remedies=lambda case: (Remedy("Set the learning rate to 1e-5 or less", (), "smaller updates"),),
    confidence=0.9,
    source="common practice",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _kl(run)
    yield from _gradients(run)
    exploded = list(_exploded_loss(run))
    yield from exploded or _rising_loss(run)
    if run.has_rewards:
        yield from _policy_loss(run)


def _kl(run: Run) -> Iterator[Finding]:
    are_sums = sums_kl(run)
    for name, high in KLS.items():
        kl = run.named(name)
        kl = Series("kl" if are_sums else name, kl.steps, np.abs(kl.values))
        if len(kl) < 5:
            continue
        first, values = min(healthy_levels(kl.values)[:2]), smooth(kl.values)
        limit = max(KLS["objective/kl"] if are_sums else high, _GROWTH * first)
        onset = find_onset(kl, values > limit, values < max(0.5 * limit, 2 * first))
        if onset is None:
            continue
        yield KL_GREW.finding(
            run.case(onset),
            run.change(kl, onset, "rose"),
            *_largest_gradient(run),
            other="policy before an update" if kl.name == "actor/ppo_kl" else "reference model",
            first=figure(first),
            now=figure(late_level(kl.values)),
            onset=onset,
        )
        return


def sums_kl(run: Run) -> bool:
    """Return whether the run's KL is a sum over sequences, as KTO's is."""
    return any(len(run.series(name)) for name in _PREFERENCES)


def _largest_gradient(run: Run) -> Iterator[Evidence]:
    norm = run.series("actor/grad_norm")
    if len(norm) and norm.values.max() > _GRADIENT * np.median(norm.values):
        top = int(np.argmax(norm.values))
        median = figure(float(np.median(norm.values)))
        text = f"gradient norm {figure(norm.values[top])} against a median of {median}"
        yield run.evidence(text, norm.step(top))


def _gradients(run: Run) -> Iterator[Finding]:
    norm = run.series("actor/grad_norm")
    if len(norm) < 6:
        return
    rise = _find_rise(norm, lambda level: _GRADIENT * level, lambda level: 3 * level)
    if rise is not None and smooth(norm.values)[-1] > _LARGE_NORM:
        # If hardly anything earned a reward in the first steps, there was hardly any gradient.
        is_grave = late_level(norm.values) > _GRAVE_NORM and rise.when == _WHEN[0]
        severity = Severity.ERROR if is_grave else Severity.WARNING
        yield _risen(GRADIENT_GREW, run, norm, rise, severity)
        return
    median = float(np.median(norm.values))
    spikes = np.flatnonzero(norm.values > max(_SPIKE * median, 10.0))
    if spikes.size >= max(_SPIKES, _SPIKE_SHARE * len(norm)):
        steps, highest = norm.steps[spikes[:5]].astype(int), float(norm.values[spikes].max())
        onset, count = int(steps[0]), int(spikes.size)
        yield SPIKES.finding(
            run.case(onset),
            run.evidence("gradient spikes", onset, count=count, highest=highest),
            count=count,
            factor=f"{_SPIKE:g}",
            middle=figure(median),
            highest=figure(highest),
            steps=", ".join(map(str, steps)),
        )
    else:
        yield from _huge_gradients(run, norm)


@dataclass(frozen=True, slots=True)
class _Rise:
    """``level`` is that of the series before ``onset``, and ``when`` says when that was."""

    level: float
    onset: int
    when: str


_WHEN = ("at first", "in the first steps", "at its lowest")


def _find_rise(
    series: Series, high: Callable[[float], float], healthy: Callable[[float], float]
) -> _Rise | None:
    """Return a lasting rise above ``high(level)`` since the last value below ``healthy(level)``.

    A level of few values is unreliable: a rise above it must last longer and exceed the jitter.
    """
    values, jitter = smooth(series.values), noise(series.values)
    for when, level in zip(_WHEN, healthy_levels(series.values), strict=True):
        is_unreliable = when != _WHEN[0]
        need = max(5, len(series) // 10) if is_unreliable else 3
        onset = find_onset(series, values > high(level), series.values < healthy(level), need)
        above = late_level(series.values) - level
        if onset is not None and level > 0 and not (is_unreliable and above < _JITTER * jitter):
            return _Rise(level, onset, when)
    return None


def _risen(
    symptom: Symptom, run: Run, series: Series, rise: _Rise, severity: Severity | None = None
) -> Finding:
    return symptom.finding(
        run.case(rise.onset),
        run.change(series, rise.onset, "rose"),
        severity=severity,
        level=figure(rise.level),
        when=rise.when,
        now=figure(late_level(series.values)),
        onset=rise.onset,
    )


def _huge_gradients(run: Run, norm: Series) -> Iterator[Finding]:
    """Find norms that are huge from the start, so that no level of the run shows a rise.

    They must be high in both halves: the norms of the first steps are often large and fall.
    """
    newest, often = late_level(norm.values), float(np.percentile(norm.values, 75))
    shares = [float(np.mean(half > _HIGH)) for half in np.array_split(norm.values, 2)]
    is_wild = float(norm.values.max()) > _HUGE and min(shares) >= _WILD
    if newest <= _HUGE and not is_wild:
        return
    now, when = max((newest, "median of the last 3 steps"), (often, "in a quarter of the steps"))
    onset = norm.step(int(np.argmax(norm.values > _HIGH)))
    evidence = run.evidence("gradient norm", onset, norm=now)
    yield HUGE_GRADIENT.finding(run.case(onset), evidence, now=figure(now), when=when)


def _exploded_loss(run: Run) -> Iterator[Finding]:
    """Find a supervised loss that grows; a policy loss is near 0 and has no meaningful level."""
    loss = run.series(metrics.TRAIN_LOSS)
    if loss.name != metrics.TRAIN_LOSS or len(loss) < 6:
        return
    rise = _find_rise(
        loss, lambda level: max(3 * level, level + 1.0), lambda level: 1.5 * level + 0.2
    )
    if rise is not None:
        yield _risen(LOSS_GREW, run, loss, rise)


def _rising_loss(run: Run) -> Iterator[Finding]:
    """Find a cross-entropy that climbs steadily; policy and preference losses have no level."""
    loss, others = run.named(metrics.TRAIN_LOSS), (metrics.REWARD_MEAN, *_PREFERENCES, *KLS)
    if len(loss) < _CLIMB_STEPS or any(len(run.series(name)) for name in others):
        return
    width = max(3, len(loss) // 5)
    before, now = float(np.median(loss.values[:width])), late_level(loss.values, width)
    if before <= 0 or now < _CLIMB * before or now - before < _CLIMB_NOISE * noise(loss.values):
        return
    if trend(loss.values) < _CLIMB_TREND or now < 0.95 * float(smooth(loss.values).max()):
        return
    case, kind = run.case(loss.step(0)), run.context.kind
    keys = (kind.gradient_clip_key, kind.learning_rate_key) if kind else ()
    # A negative value reverses the direction of the updates.
    negative = {
        key: value
        for key in keys
        if key and isinstance(value := run.context.get(key), int | float) and value < 0
    }
    settings = " and ".join(f"{key}={value:g}" for key, value in negative.items())
    evidence = {"before": before, "after": now, **negative}
    yield LOSS_RISES.finding(
        case,
        run.evidence(f"{loss.name} rose steadily", case.onset, **evidence),
        remedies=(*_make_positive(run.context, negative), *LOSS_RISES.remedies(case)),
        before=figure(before),
        now=figure(now),
        width=width,
        uphill=f" {settings} reverses the direction of the updates." if settings else "",
    )


def _make_positive(context: MetricContext, negative: dict[str, float]) -> Iterator[Remedy]:
    clip_key = context.kind.gradient_clip_key if context.kind else None
    for key, value in negative.items():
        usual, title = 1.0 if key == clip_key else abs(value), f"Set {key} to {{}}"
        yield fixes.usual_value(context, key, usual, lambda number: number > 0, title)


def _policy_loss(run: Run) -> Iterator[Finding]:
    """Find a policy loss that keeps growing by half, which it does not do in a healthy run."""
    loss = run.first("actor/pg_loss", "actor/loss")
    if len(loss) <= _RISES:
        return
    size = np.abs(loss.values)
    start, end = longest_stretch(size[1:] > 1.5 * size[:-1])
    if end - start < _RISES or size[end] < max(_GRADIENT * size[start], _LARGE_LOSS):
        return
    onset, before, now = loss.step(start + 1), float(size[start]), float(size[end])
    yield POLICY_LOSS_GREW.finding(
        run.case(onset),
        run.evidence("policy loss", onset, before=before, after=now),
        before=figure(before),
        now=figure(now),
        count=end - start,
        onset=onset,
    )


def explain_by_rate(run: Run, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Name a logged learning rate that no model stands, if something is wrong with the run."""
    rate = learning_rate(run)
    is_sick = any(finding.id.startswith(_OF_HIGH_RATES) for finding in findings)
    if is_sick and len(rate) and float(rate.values.max()) > _HIGHEST_RATE:
        onset = rate.step(int(np.argmax(rate.values > _HIGHEST_RATE)))
        text = f"{rate.values.max():g}"
        evidence = run.evidence(f"{rate.name} is {text}", onset, rate=float(rate.values.max()))
        yield RATE_LOGGED.finding(run.case(onset), evidence, rate=text)


RULE = Rule(check)
