"""Rules for updates that are too large: KL, gradients or the loss diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.logged_run import (
    LoggedRun,
    Series,
    figure,
    find_onset,
    format_span,
    learning_rate,
)
from engine.doctor.metrics.series_stats import (
    healthy_levels,
    late_level,
    longest_stretch,
    noise,
    smooth,
    trend,
)
from engine.run import fixes
from engine.run.finding import Evidence, Finding, Fix, Severity
from engine.run.finding_kind import FindingKind, Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics
from engine.run.rule_context import RuleContext

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
_HIGH, _HUGE, _LOST_NORM, _WILD = 100.0, 1000.0, 1e6, 0.25
_FAR_KL, _UPDATE_KL = 20.0, 1.0
"""Of a few records, in nats per token. ``_UPDATE_KL`` is the largest KL of one update."""
_RISES = 3
_CLIMB_STEPS, _CLIMB, _CLIMB_NOISE, _CLIMB_TREND = 10, 1.1, 5.0, 0.6
_LARGE_LOSS = 20.0
_HIGHEST_RATE = 1e-2
_OF_HIGH_RATES = ("loss_nan", "kl_or_grad_blowup", "collapse_entropy_or_length", "reward_zero")
"""Beginnings of the findings that a learning rate may explain."""


KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    findings = [*_kl(run), *_gradients(run), *(list(_exploded_loss(run)) or _rising_loss(run))]
    if run.has_rewards:
        findings += _policy_loss(run)
    yield from findings
    if run.is_short and not findings:
        yield from _too_large(run)


def _kl(run: LoggedRun) -> Iterator[Finding]:
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
        yield KINDS["kl_or_grad_blowup.kl"].finding(
            run.case(onset),
            run.change(kl, onset, "rose"),
            *_largest_gradient(run),
            other="policy before an update" if kl.name == "actor/ppo_kl" else "reference model",
            first=figure(first),
            now=figure(late_level(kl.values)),
        )
        return


def sums_kl(run: LoggedRun) -> bool:
    """Return whether the run's KL is a sum over sequences, as KTO's is."""
    return any(len(run.series(name)) for name in _PREFERENCES)


def _largest_gradient(run: LoggedRun) -> Iterator[Evidence]:
    norm = run.series("actor/grad_norm")
    if len(norm) and norm.values.max() > _GRADIENT * np.median(norm.values):
        top = int(np.argmax(norm.values))
        median = figure(float(np.median(norm.values)))
        text = f"gradient norm {figure(norm.values[top])} against a median of {median}"
        yield run.evidence(text, norm.step(top))


def _gradients(run: LoggedRun) -> Iterator[Finding]:
    norm = run.series("actor/grad_norm")
    if len(norm) < 6:
        return
    rise = _find_rise(norm, lambda level: _GRADIENT * level, lambda level: 3 * level)
    if rise is not None and smooth(norm.values)[-1] > _LARGE_NORM:
        # If hardly anything earned a reward in the first steps, there was hardly any gradient.
        is_grave = late_level(norm.values) > _GRAVE_NORM and rise.when == _WHEN[0]
        severity = Severity.ERROR if is_grave else Severity.WARNING
        yield _risen(KINDS["kl_or_grad_blowup.gradient"], run, norm, rise, severity)
        return
    median = float(np.median(norm.values))
    spikes = np.flatnonzero(norm.values > max(_SPIKE * median, 10.0))
    if spikes.size >= max(_SPIKES, _SPIKE_SHARE * len(norm)):
        steps, highest = norm.steps[spikes[:5]].astype(int), float(norm.values[spikes].max())
        onset, count = int(steps[0]), int(spikes.size)
        yield KINDS["kl_or_grad_blowup.spikes"].finding(
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
    finding_kind: FindingKind,
    run: LoggedRun,
    series: Series,
    rise: _Rise,
    severity: Severity | None = None,
) -> Finding:
    return finding_kind.finding(
        run.case(rise.onset),
        run.change(series, rise.onset, "rose"),
        severity=severity,
        level=figure(rise.level),
        when=rise.when,
        now=figure(late_level(series.values)),
    )


def _huge_gradients(run: LoggedRun, norm: Series) -> Iterator[Finding]:
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
    yield KINDS["kl_or_grad_blowup.huge"].finding(
        run.case(onset), evidence, now=figure(now), when=when
    )


def _exploded_loss(run: LoggedRun) -> Iterator[Finding]:
    """Find a supervised loss that grows; a policy loss is near 0 and has no meaningful level."""
    loss = run.series(metrics.TRAIN_LOSS)
    if loss.name != metrics.TRAIN_LOSS or len(loss) < 6:
        return
    rise = _find_rise(
        loss, lambda level: max(3 * level, level + 1.0), lambda level: 1.5 * level + 0.2
    )
    if rise is not None:
        yield _risen(KINDS["kl_or_grad_blowup.loss"], run, loss, rise)


def _rising_loss(run: LoggedRun) -> Iterator[Finding]:
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
    yield KINDS["kl_or_grad_blowup.loss_rises"].finding(
        case,
        run.evidence(f"{loss.name} rose steadily", case.onset, **evidence),
        fixes=(
            *_make_positive(run.context, negative),
            *KINDS["kl_or_grad_blowup.loss_rises"].fixes(case),
        ),
        before=figure(before),
        now=figure(now),
        width=width,
        uphill=f" {settings} reverses the direction of the updates." if settings else "",
    )


def _make_positive(context: RuleContext, negative: dict[str, float]) -> Iterator[Fix]:
    clip_key = context.kind.gradient_clip_key if context.kind else None
    for key, value in negative.items():
        usual, title = 1.0 if key == clip_key else abs(value), f"Set {key} to {{}}"
        yield fixes.usual_value(context, key, usual, lambda number: number > 0, title)


def _policy_loss(run: LoggedRun) -> Iterator[Finding]:
    """Find a policy loss that keeps growing by half, which it does not do in a healthy run."""
    loss = run.first("actor/pg_loss", "actor/loss")
    if len(loss) <= _RISES:
        return
    size = np.abs(loss.values)
    start, end = longest_stretch(size[1:] > 1.5 * size[:-1])
    if end - start < _RISES or size[end] < max(_GRADIENT * size[start], _LARGE_LOSS):
        return
    onset, before, now = loss.step(start + 1), float(size[start]), float(size[end])
    yield KINDS["kl_or_grad_blowup.policy_loss"].finding(
        run.case(onset),
        run.evidence("policy loss", onset, before=before, after=now),
        before=figure(before),
        now=figure(now),
        count=end - start,
    )


def _too_large(run: LoggedRun) -> Iterator[Finding]:
    """Find values in a few records that no healthy run has, whatever came before them."""
    norm, loss = run.series("actor/grad_norm"), run.series(metrics.TRAIN_LOSS)
    for kl in per_token_kls(run):
        limit = _UPDATE_KL if kl.name == "actor/ppo_kl" and len(kl) > 1 else _FAR_KL
        if len(kl) and np.all(np.abs(kl.values) > limit):
            beside = "the policy is far from the model it started from"
            yield _large(run, kl, "large_kl", beside)
            return
    if not len(norm):
        return
    has_loss = loss.name == metrics.TRAIN_LOSS and len(loss) > 0  # A policy loss is near 0.
    is_lost = bool(np.all(np.abs(loss.values) >= _HIGH)) if has_loss else len(norm) > 1
    if np.all(norm.values >= _HUGE) and is_lost:
        beside = f"the loss is {figure(loss.values[-1])}" if has_loss else "no loss is logged"
        yield _large(run, norm, "large_gradient", beside)
    elif norm.values[-1] >= _LOST_NORM:
        yield _large(run, norm, "large_gradient", "no healthy update has such a gradient")


def per_token_kls(run: LoggedRun) -> tuple[Series, ...]:
    """Return the KLs in nats per token."""
    names = () if sums_kl(run) else ("actor/kl_loss", "actor/ppo_kl")
    return tuple(run.series(name) for name in names)


def _large(run: LoggedRun, series: Series, key: str, beside: str) -> Finding:
    onset, last, span = series.step(0), float(series.values[-1]), format_span(series)
    return KINDS[key].finding(
        run.case(onset),
        run.evidence(f"{series.name} is {span}", onset, last=last),
        metric=series.name,
        last=figure(last),
        span=span,
        beside=beside,
    )


def explain_by_rate(run: LoggedRun, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Name a logged learning rate that no model stands, if something is wrong with the run."""
    rate = learning_rate(run)
    is_unhealthy = any(finding.id.startswith(_OF_HIGH_RATES) for finding in findings)
    if is_unhealthy and len(rate) and float(rate.values.max()) > _HIGHEST_RATE:
        onset = rate.step(int(np.argmax(rate.values > _HIGHEST_RATE)))
        text = f"{rate.values.max():g}"
        evidence = run.evidence(f"{rate.name} is {text}", onset, rate=float(rate.values.max()))
        yield KINDS["kl_or_grad_blowup.rate_logged"].finding(run.case(onset), evidence, rate=text)


RULE = Rule(check)
