"""Rules for a collapsing policy: short or endless responses, entropy that vanishes or explodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import LENGTH, Run, Series, cut_share, figure, find_onset, percent
from engine.doctor.metrics.series_stats import Floats, early_level, find_drop, smooth, tail_start
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Rule, Symptom
from engine.history import metrics

_STEPS = 2
_SHORT_TOKENS = 2.5
_LOW_ENTROPY = 0.05
_NOT_CERTAIN = 0.1
_NOTICEABLE = 0.02
_LASTS = 4
_CONTRAST = 3.5
_CAPPED = 0.9
_HALF_CAPPED = 0.5
_FEW_STEPS = 30
_WHOLE_RUN = 20


def _entropy_bonus(context: MetricContext) -> Remedy:
    key, effect = f"{fixes.ACTOR}.entropy_coeff", "keeps the policy from becoming certain"
    before = context.get(key)
    wanted = 3 * before if isinstance(before, float) and before > 0 else 0.003
    return fixes.setting(context, key, wanted, "Raise the entropy bonus", effect)


LENGTH_COLLAPSE = Symptom(
    id="collapse_entropy_or_length.length",
    severity=Severity.CRITICAL,
    also=(Severity.WARNING,),
    title="Responses collapsed to {now} tokens",
    cause="Responses had {first} tokens at first and have {now} (median of the last 3 steps) since "
    "about step {onset}: the shortest response pays best, or training broke the model. Texts this "
    "short hardly differ from each other, so runs seldom recover.",
    shape="the mean response falls below a tenth of its early length (at most 2.5 tokens if it was "
    "short already) and stays there to the last step; a warning if rewards rose with it",
    ruled_out="slow shortening by less",
    remedies=lambda case: (
        fixes.earlier_checkpoint(case.onset),
        fixes.lower_rate(case.context),
        fixes.add_kl_loss(case.context),
        Remedy("Check what a response of one token earns: a penalty may outweigh the score"),
    ),
    source="failure classes: length to 1 within a few steps",
)
LENGTH_LIMIT = Symptom(
    id="collapse_entropy_or_length.length_cap",
    title="{now} of responses hit the length limit",
    cause="At first {first} of responses reached the limit{limit}, and {now} (median of the last "
    "3 steps) since about step {onset}. The model no longer emits an end token; rewards score "
    "truncated text.",
    shape="the share of responses that were cut rises from below a half to nine tenths, to the "
    "last step; where no share is logged, steps whose mean length is the longest of all count",
    ruled_out="a clip ratio of batches whose longest response is shorter than the limit (verl "
    "compares with the batch's own longest); a limit that is hit from the first steps on",
    remedies=lambda case: (
        fixes.earlier_checkpoint(case.onset),
        fixes.lower_rate(case.context),
        fixes.longer_responses(case.context),
        Remedy("Penalize overlong responses softly below the limit (DAPO's overlong shaping)"),
    ),
    source="failure classes: clip ratio to 1",
)
LIMIT_FROM_START = Symptom(
    id="collapse_entropy_or_length.cap_from_start",
    severity=Severity.INFO,
    also=(Severity.WARNING,),
    title="{share} of responses hit the length limit from the start",
    cause="From the first steps on, {share} of responses reach the length limit, so the model "
    "rarely sees an end. A thinking mode that fills the token budget looks like this.",
    shape="half of the responses and more are cut from the first steps on; a warning if all "
    "responses of at least 20 steps are",
    remedies=lambda case: (
        fixes.longer_responses(case.context),
        Remedy("Switch thinking off in the chat template"),
    ),
    confidence=0.8,
    source="hardening guide's logs: 64 of 64 tokens in 500 of 500 steps",
)
ENTROPY_COLLAPSE = Symptom(
    id="collapse_entropy_or_length.entropy",
    also=(Severity.WARNING,),
    title="Entropy collapsed to {now}",
    cause="Entropy was {first} at first and is {now} (median of the last 3 steps) since about step "
    "{onset}: the policy is certain of every token, the rollouts of a group become the same text, "
    "and nothing is explored any more.",
    shape="entropy falls below a tenth of its early level within 30 steps, or below a twentieth at "
    "any pace (a warning), and below 0.05 nats, to the last step",
    ruled_out="entropy that was low from the start",
    remedies=lambda case: (
        fixes.earlier_checkpoint(case.onset),
        _entropy_bonus(case.context),
        fixes.setting(
            case.context,
            f"{fixes.ACTOR}.clip_ratio_high",
            0.28,
            "Raise the upper clip ratio (DAPO's clip-higher)",
            "unlikely tokens can still gain probability",
        ),
        fixes.lower_rate(case.context, 0.3),
    ),
    source='Cui et al., "The Entropy Mechanism of RL for Reasoning LMs" (arXiv 2505.22617)',
)
ENTROPY_EXPLOSION = Symptom(
    id="collapse_entropy_or_length.entropy_explosion",
    also=(Severity.WARNING,),
    title="Entropy {verb} to {now}",
    cause="Entropy was {first} at first and is {now} (median of the last 3 steps) since about step "
    "{onset}: the policy {policy}. Updates are too large, or the entropy bonus outweighs the "
    "reward.",
    shape="entropy is three times its early level and a nat more, or four times and half a nat, to "
    "the last step; a warning at four times if the reward was lost at the same time",
    remedies=lambda case: (
        fixes.earlier_checkpoint(case.onset),
        fixes.lower_rate(case.context),
        fixes.setting(
            case.context,
            f"{fixes.ACTOR}.entropy_coeff",
            0,
            "Switch the entropy bonus off",
            "only the reward drives the policy",
        ),
        fixes.add_kl_loss(case.context),
    ),
    source="failure classes: entropy far up",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _length(run)
    yield from _cap(run)
    yield from _entropy(run)


def _length(run: Run) -> Iterator[Finding]:
    length = run.series(LENGTH)
    if len(length) < 5:
        return
    first, values = early_level(length.values), smooth(length.values)
    floor = max(0.1 * first, _SHORT_TOKENS)
    if first < 2 * _SHORT_TOKENS:
        return
    onset = find_onset(length, values <= floor, length.values > 0.5 * first)
    if onset is None:
        return
    yield LENGTH_COLLAPSE.finding(
        run.case(onset),
        run.change(length, onset, "fell"),
        *_other_changes(run, onset),
        severity=Severity.WARNING if _pays(run, onset) else None,
        first=figure(first),
        now=figure(float(values[-1])),
        onset=onset,
    )


def _pays(run: Run, onset: int) -> bool:
    """Whether rewards rose with it, beyond what they varied by: a short response may be right."""
    reward = run.series(metrics.REWARD_MEAN)
    before, after = reward.until(onset).values, reward.since(onset).values
    if min(before.size, after.size) < _STEPS:
        return False
    return float(np.median(after[-10:])) > float(before.mean() + 2 * before.std())


def _cap(run: Run) -> Iterator[Finding]:
    capped = cut_share(run)
    if not len(capped):
        capped = _at_the_longest(run.series(LENGTH))
    if len(capped) < 5:
        return
    first, values = early_level(capped.values), smooth(capped.values)
    if first >= _HALF_CAPPED and _is_capped_at_once(capped.values):
        # All responses of a whole run are a fault; most of them may be a small model's way.
        every = len(capped) >= _WHOLE_RUN and float(capped.values.min()) > 0.99
        onset, share = capped.step(0), percent(first)
        yield LIMIT_FROM_START.finding(
            run.case(onset),
            run.evidence(f"{share} of responses at the limit", onset, share=first),
            severity=Severity.WARNING if every else None,
            share=share,
        )
        return
    onset_step = find_onset(capped, values >= _CAPPED, capped.values < _HALF_CAPPED)
    if onset_step is None:
        return
    before = capped.until(onset_step).values[-20:]
    limit = run.context.get(fixes.RESPONSE)
    length = run.series(LENGTH)
    lengths = [run.change(length, onset_step, "went")] if _moved(length, onset_step) else []
    yield LENGTH_LIMIT.finding(
        run.case(onset_step),
        run.change(capped, onset_step, "rose"),
        *lengths,
        *_other_changes(run, onset_step),
        first=percent(float(np.median(before)) if before.size else first),
        now=percent(float(values[-1])),
        limit=f" of {limit} tokens" if isinstance(limit, int) else "",
        onset=onset_step,
    )


def _is_capped_at_once(shares: Floats) -> bool:
    """Whether the very first steps are: where a collapse begins soon, most of the early ones."""
    return float(shares[0]) >= 0.5 * _HALF_CAPPED and float(np.median(shares[:3])) >= _HALF_CAPPED


def _at_the_longest(length: Series) -> Series:
    """1 where a mean length equals the longest one: a stretch of equals at the end is a limit.

    Not for a few tokens: a label and its end token always have the same length, as do empty texts.
    """
    longest = length.values.max(initial=0.0)
    at_cap = length.values == longest
    if longest < 2 * _SHORT_TOKENS or len(length) < 10 or tail_start(at_cap, 5) is None:
        return length.until(float("-inf"))
    return Series(length.name, length.steps, at_cap.astype(float))


def _entropy(run: Run) -> Iterator[Finding]:
    entropy = run.series("actor/entropy")
    if len(entropy) < 5:
        return
    first, values = early_level(entropy.values), smooth(entropy.values)
    up = (values > max(3 * first, first + 1.0)) | (values > max(4 * first, first + 0.5))
    fell = _fell(entropy, values, first)
    sound = entropy.values < 1.5 * first
    rose = find_onset(entropy, up, sound)
    if fell is not None:
        onset, severity = fell
        yield ENTROPY_COLLAPSE.finding(
            run.case(onset),
            run.change(entropy, onset, "fell"),
            *_other_changes(run, onset, entropy.name),
            severity=severity,
            first=figure(first),
            now=figure(float(np.median(entropy.values[-3:]))),
            onset=onset,
        )
    if rose is not None:
        yield _exploded(run, entropy, first, rose, Severity.ERROR)
        return
    with_loss = (values > max(4 * first, _NOT_CERTAIN)) & (entropy.steps >= _reward_lost(run))
    if (rose := find_onset(entropy, with_loss, sound, _LASTS)) is not None:
        yield _exploded(run, entropy, first, rose, Severity.WARNING)


def _reward_lost(run: Run) -> float:
    """The step since when the reward is lower than it was by more than noise; inf where it is not.

    Alone this may be a random walk; together with an entropy that multiplies it is none.
    """
    reward = run.series(metrics.REWARD_MEAN)
    found = find_drop(reward.values)
    return float("inf") if found is None or found.contrast < _CONTRAST else reward.step(found.index)


def _fell(entropy: Series, values: Floats, first: float) -> tuple[int, Severity] | None:
    """A slow decline is what learning looks like, until nothing is left; a sudden one is not."""
    sound, low = entropy.values > 0.5 * first, values < min(0.1 * first, _LOW_ENTROPY)
    onset, place = find_onset(entropy, low, sound), tail_start(low, _STEPS)
    if onset is None or place is None:
        return None
    if entropy.step(place) - onset <= _FEW_STEPS:
        return onset, Severity.ERROR
    nothing_left = find_onset(entropy, values < min(0.05 * first, _LOW_ENTROPY), sound)
    return None if nothing_left is None else (nothing_left, Severity.WARNING)


def _exploded(run: Run, entropy: Series, first: float, onset: int, severity: Severity) -> Finding:
    now = float(np.median(entropy.values[-3:]))
    return ENTROPY_EXPLOSION.finding(
        run.case(onset),
        run.change(entropy, onset, "rose"),
        *_other_changes(run, onset, entropy.name),
        severity=severity,
        verb="exploded" if severity is Severity.ERROR else "grew while rewards fell,",
        policy="writes nearly random text" if now > 1 else "is far less certain of its responses",
        first=figure(first),
        now=figure(now),
        onset=onset,
    )


def _moved(series: Series, onset: int) -> bool:
    before, after = series.until(onset).values, series.since(onset).values
    if min(before.size, after.size) < _STEPS:
        return False
    was, now = float(np.median(before[-20:])), float(np.median(after[-3:]))
    return abs(now - was) > _NOTICEABLE * max(abs(was), abs(now))


def _other_changes(run: Run, onset: int, besides: str = "") -> Iterator[Evidence]:
    """Other metrics that moved at that time, as numbers without a verdict."""
    for name in (
        metrics.REWARD_MEAN,
        "actor/entropy",
        "actor/grad_norm",
        "actor/reward_kl_penalty",
    ):
        series = run.series(name)
        if series.name != besides and _moved(series, onset):
            yield run.change(series, onset, "went")


RULE = Rule(check)
