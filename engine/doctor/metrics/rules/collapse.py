"""Rules for a collapsing policy: short or endless responses, entropy that vanishes or explodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.logged_run import (
    LENGTH,
    MOSTLY_CUT,
    LoggedRun,
    Series,
    cut_evidence,
    cut_share,
    figure,
    find_onset,
    format_span,
    percent,
)
from engine.doctor.metrics.rules.divergence import per_token_kls
from engine.doctor.metrics.rules.flat_reward import zero_std_onset
from engine.doctor.metrics.series_stats import (
    Floats,
    early_level,
    find_drop,
    late_level,
    smooth,
    tail_start,
)
from engine.run import fixes
from engine.run.finding import Evidence, Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_STEPS = 2
_SHORT_TOKENS = 2.5
_LOW_ENTROPY = 0.05
_NOT_CERTAIN = 0.1
_NOTICEABLE = 0.02
_LASTS = 4
_CONTRAST = 3.5
_HALF_CUT = 0.5
_SUDDEN_STEPS = 30
_WHOLE_RUN = 20
_RANDOM_NATS, _CERTAIN_NATS = 4.0, 0.01
_FAR_KL = 1.0
_SETTLED, _BEGUN = 100, 5
"""From these steps on, a policy without entropy, or with random text, is not an untrained one."""


KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    if run.has_rewards:  # The entropy of a run that learns from labels is meant to fall.
        findings = [*_short_responses(run), *_length_limit(run), *_entropy(run)]
        yield from findings
        if run.is_short and not any(finding.severity.is_alert for finding in findings):
            yield from _collapsed(run)


def _short_responses(run: LoggedRun) -> Iterator[Finding]:
    length = _unscheduled(run, run.series(LENGTH), metrics.ROLLOUT_LENGTH)
    if len(length) < 5 or (first := early_level(length.values)) < 2 * _SHORT_TOKENS:
        return
    values, floor = smooth(length.values), max(0.1 * first, _SHORT_TOKENS)
    onset = find_onset(length, values <= floor, length.values > 0.5 * first)
    if onset is None:
        return
    # A short response may be right: rewards may rise with it, beyond what they varied by.
    reward = run.series(metrics.REWARD_MEAN)
    before, after = reward.until(onset).values, reward.since(onset).values
    pays = min(before.size, after.size) >= _STEPS and (
        float(np.median(after[-10:])) > float(before.mean() + 2 * before.std())
    )
    now = figure(float(values[-1]))
    yield KINDS["collapse_entropy_or_length.length"].finding(
        run.case(onset),
        run.change(length, onset, "fell"),
        *_other_changes(run, onset),
        severity=Severity.WARNING if pays else None,
        first=figure(first),
        now=now,
        length="1 token" if now == "1" else f"{now} tokens",
    )


def _unscheduled(run: LoggedRun, series: Series, scheduled: str) -> Series:
    """Return the values since ``scheduled`` last changed: a schedule moves them by itself."""
    values = run.series(scheduled)
    if not len(values):
        return series
    begin = tail_start(values.values == values.values[-1], 1)
    return series.since(values.step(begin or 0))


def _length_limit(run: LoggedRun) -> Iterator[Finding]:
    share = cut_share(run)
    if not len(share):
        share = _at_longest(run.series(LENGTH))
    if len(share) < 5:
        return
    first, values = early_level(share.values), smooth(share.values)
    # For a collapse that begins soon, most of the first fifth may be truncated, but not the start.
    begin = float(share.values[0]), float(np.median(share.values[:3]))
    if first >= _HALF_CUT and begin[0] >= 0.5 * _HALF_CUT and begin[1] >= _HALF_CUT:
        # A small model may hit the limit often, but not always.
        is_always = len(share) >= _WHOLE_RUN and float(share.values.min()) > 0.99
        onset, text = share.step(0), percent(first)
        yield KINDS["collapse_entropy_or_length.cap_from_start"].finding(
            run.case(onset),
            run.evidence(f"{text} of responses at the limit", onset, share=first),
            severity=Severity.WARNING if is_always else None,
            share=text,
        )
        return
    start = find_onset(share, values >= MOSTLY_CUT, share.values < _HALF_CUT)
    if start is None:
        return
    before, length = share.until(start).values[-20:], run.series(LENGTH)
    limit = run.context.get(fixes.RESPONSE)
    yield KINDS["collapse_entropy_or_length.length_cap"].finding(
        run.case(start),
        run.change(share, start, "rose"),
        *([run.change(length, start, "went")] if _has_moved(length, start) else []),
        *_other_changes(run, start),
        first=percent(float(np.median(before)) if before.size else first),
        now=percent(float(values[-1])),
        limit=f" of {limit} tokens" if isinstance(limit, int) else "",
    )


def _at_longest(length: Series) -> Series:
    """Return 1 where a mean length equals the longest one: equal values at the end are a limit.

    Empty for lengths of a few tokens: a label and its end token always have the same length.
    """
    longest = length.values.max(initial=0.0)
    at_limit = length.values == longest
    if longest < 2 * _SHORT_TOKENS or len(length) < 10 or tail_start(at_limit, 5) is None:
        return length.until(float("-inf"))
    return Series(length.name, length.steps, at_limit.astype(float))


def _entropy(run: LoggedRun) -> Iterator[Finding]:
    entropy = _unscheduled(run, run.series("actor/entropy"), metrics.ROLLOUT_TEMPERATURE)
    if len(entropy) < 5:
        return
    first, values = early_level(entropy.values), smooth(entropy.values)
    fall = _find_fall(entropy, values, first)
    if fall is not None:
        yield KINDS["collapse_entropy_or_length.entropy"].finding(
            run.case(fall[0]),
            run.change(entropy, fall[0], "fell"),
            *_other_changes(run, fall[0], entropy.name),
            severity=fall[1],
            first=figure(first),
            now=figure(late_level(entropy.values)),
        )
    healthy = entropy.values < 1.5 * first
    high = (values > max(3 * first, first + 1.0)) | (values > max(4 * first, first + 0.5))
    if (onset := find_onset(entropy, high, healthy)) is not None:
        yield _exploded(run, entropy, first, onset, Severity.ERROR)
        return
    # Alone, such a drop of the reward may be a random walk; together with the entropy it is not.
    reward = run.series(metrics.REWARD_MEAN)
    drop = find_drop(reward.values)
    if drop is None or drop.contrast < _CONTRAST:
        return
    high = (values > max(4 * first, _NOT_CERTAIN)) & (entropy.steps >= reward.step(drop.index))
    if (onset := find_onset(entropy, high, healthy, _LASTS)) is not None:
        yield _exploded(run, entropy, first, onset, Severity.WARNING)


def _find_fall(entropy: Series, values: Floats, first: float) -> tuple[int, Severity] | None:
    """Return onset and severity of a sudden fall, or of a slow one once no entropy is left.

    A slow decline is what learning looks like.
    """
    healthy, low = entropy.values > 0.5 * first, values < min(0.1 * first, _LOW_ENTROPY)
    onset, index = find_onset(entropy, low, healthy), tail_start(low, _STEPS)
    if onset is None or index is None:
        return None
    if entropy.step(index) - onset <= _SUDDEN_STEPS:
        return onset, Severity.ERROR
    onset = find_onset(entropy, values < min(0.05 * first, _LOW_ENTROPY), healthy)
    return None if onset is None else (onset, Severity.WARNING)


def _exploded(
    run: LoggedRun, entropy: Series, first: float, onset: int, severity: Severity
) -> Finding:
    now = late_level(entropy.values)
    return KINDS["collapse_entropy_or_length.entropy_explosion"].finding(
        run.case(onset),
        run.change(entropy, onset, "rose"),
        *_other_changes(run, onset, entropy.name),
        severity=severity,
        verb="exploded" if severity is Severity.ERROR else "grew while rewards fell,",
        policy="writes nearly random text" if now > 1 else "is far less certain of its responses",
        first=figure(first),
        now=figure(now),
    )


def _collapsed(run: LoggedRun) -> Iterator[Finding]:
    """Find in a few records a fall to nearly nothing, or an entropy that no healthy run has."""
    length, entropy = run.series(LENGTH), run.series("actor/entropy")
    values = entropy.values
    if _fell(length, 10.0, 0.1, 2):
        yield _fallen(run, "few_lengths", length, "responses are nearly empty")
    if _fell(entropy, 0.3, 0.05, 1):
        yield _fallen(run, "few_entropies", entropy, "entropy fell to nearly 0")
    if not len(entropy):
        return
    if np.all((values > 0) & (values <= _CERTAIN_NATS)) and entropy.step(0) >= _SETTLED:
        yield _fallen(run, "few_entropies", entropy, "it is certain of every token")
    rewards = run.series(metrics.REWARD_MEAN).values
    earns = rewards.size > 0 and bool(np.all(rewards > 0)) and zero_std_onset(run) is None
    useless = entropy.step(0) >= _BEGUN and cut_evidence(run) and not earns
    has_drifted = any(len(kl) and np.all(kl.values >= _FAR_KL) for kl in per_token_kls(run))
    if np.all(values >= _RANDOM_NATS) and (useless or has_drifted):
        yield _fallen(run, "high_entropies", entropy, "it writes nearly random text")


def _fell(series: Series, least: float, share: float, records: int) -> bool:
    """Return whether the last records fell to that share of the first one."""
    if len(series) <= records or series.values[0] < least:
        return False
    return 0 <= float(series.values[-records:].max()) <= share * float(series.values[0])


def _fallen(run: LoggedRun, key: str, series: Series, sign: str) -> Finding:
    onset = series.step(1 if key == "few_lengths" else 0)
    span, norm = format_span(series), run.series("actor/grad_norm")
    evidence = [run.evidence(f"{series.name} is {span}", onset, last=float(series.values[-1]))]
    evidence += cut_evidence(run)
    if len(norm):
        evidence.append(run.evidence(f"gradient norm {format_span(norm)}", norm.step(0)))
    return KINDS[key].finding(run.case(onset), *evidence, sign=sign, metric=series.name, span=span)


def _has_moved(series: Series, onset: int) -> bool:
    before, after = series.until(onset).values, series.since(onset).values
    if min(before.size, after.size) < _STEPS:
        return False
    old, new = float(np.median(before[-20:])), late_level(after)
    return abs(new - old) > _NOTICEABLE * max(abs(old), abs(new))


def _other_changes(run: LoggedRun, onset: int, besides: str = "") -> Iterator[Evidence]:
    """Yield the changes of other metrics at that time."""
    names = metrics.REWARD_MEAN, "actor/entropy", "actor/grad_norm", "actor/reward_kl_penalty"
    for series in map(run.series, names):
        if series.name != besides and _has_moved(series, onset):
            yield run.change(series, onset, "went")


RULE = Rule(check)
