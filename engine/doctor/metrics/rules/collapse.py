"""The policy collapses: short, empty or endless responses; certain of one token, or of none.

Length collapse: the mean response falls below a tenth of what it was (at most 2.5 tokens when it
was short already) and stays there; a warning where rewards rose with it. Length cap: the share of
responses cut at the cap rises from below a half to nine tenths; where no share is logged, steps of
the very longest length count.
Entropy collapse: below a tenth of what it was within 30 steps, or below a twentieth at any pace
(a warning), and below 0.05 nats. Entropy explosion: three times what it was and a nat more, or
four times and half a nat; a warning at four times where the reward was lost at the same time. All
must hold to the last step.
Ruled out: a clip ratio of batches whose longest response is shorter than the limit (verl compares
with the batch's own longest), a cap that is hit from the very first steps on (info; a warning when
all responses of 20 steps are cut), slow shortening by less, entropy that was low from the start.
Source: classes ("entropy to 0 or far up; length to 1 or clip ratio to 1 within few steps"); Cui et
al., "The Entropy Mechanism of RL for Reasoning LMs" (arXiv 2505.22617).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.doctor.metrics.series_stats import Floats, Mask, drop, early, lasting, smooth
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

LENGTH = "response_length/mean"
CAPPED = "response_length/clip_ratio"
LONGEST = "response_length/max"
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


def check(run: Run) -> Iterator[Finding]:
    yield from _length(run)
    yield from _cap(run)
    yield from _entropy(run)


def since(series: Series, sick: Mask, sound: Mask, need: int = _STEPS) -> int | None:
    """The step at which a lasting sickness began: the first after the last sound value."""
    place = lasting(sick, need)
    if place is None:
        return None
    healthy = np.flatnonzero(sound[:place])
    return series.step(int(healthy[-1]) + 1 if healthy.size else place)


def _length(run: Run) -> Iterator[Finding]:
    length = run.series(LENGTH)
    if len(length) < 5:
        return
    first, values = early(length.values), smooth(length.values)
    floor = max(0.1 * first, _SHORT_TOKENS)
    if first < 2 * _SHORT_TOKENS:
        return
    onset = since(length, values <= floor, length.values > 0.5 * first)
    if onset is None:
        return
    now = float(values[-1])
    yield Finding(
        "collapse_entropy_or_length.length",
        Severity.WARNING if _pays(run, onset) else Severity.CRITICAL,
        f"Responses collapsed to {figure(now)} tokens",
        f"Responses had {figure(first)} tokens at first and have {figure(now)} (median of the last "
        f"3 steps) since about step {onset}: the shortest answer pays best, or training broke the "
        "model. Texts so short hardly differ from each other, so it seldom recovers by itself.",
        (run.change(length, onset, "fell"), *_company(run, onset)),
        (
            cures.earlier_checkpoint(onset),
            cures.gentler(run.context),
            cures.held_near_reference(run.context),
            Remedy("Look at what a response of one token earns: a penalty may outweigh the score"),
        ),
        onset,
        source="classes: length to 1 within few steps",
    )


def _pays(run: Run, onset: int) -> bool:
    """Whether rewards rose with it, beyond what they varied by: a short answer may be right."""
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
    first, values = early(capped.values), smooth(capped.values)
    if first >= _HALF_CAPPED and _is_capped_at_once(capped.values):
        yield from _always_capped(run, capped, first)
        return
    onset = since(capped, values >= _CAPPED, capped.values < _HALF_CAPPED)
    if onset is None:
        return
    before = capped.until(onset).values[-20:]
    first = float(np.median(before)) if before.size else first
    now, limit = float(values[-1]), run.context.get(cures.RESPONSE)
    where = f" of {limit} tokens" if isinstance(limit, int) else ""
    yield Finding(
        "collapse_entropy_or_length.length_cap",
        Severity.ERROR,
        f"{percent(now)} of the responses are cut at the cap",
        f"At first {percent(first)} of the responses reached the cap{where}, and {percent(now)} "
        f"(median of the last 3 steps) do since about step {onset}: the model no longer ends its "
        "answers. What is scored is the beginning of an answer, and the end is never learned.",
        (run.change(capped, onset, "rose"), *_witnesses(run, onset, run.series(LENGTH))),
        (
            cures.earlier_checkpoint(onset),
            cures.gentler(run.context),
            cures.longer(run.context),
            Remedy("Punish overlong answers softly before the cap (DAPO's overlong shaping)"),
        ),
        onset,
        source="classes: clip ratio to 1",
    )


def cut_share(run: Run) -> Series:
    """The share of responses that were cut at the cap.

    verl's ratio counts the responses that are as long as the longest of their batch: it is the
    share that was cut only where the longest is as long as the limit. Where nobody knows the limit
    it is taken for the longest response of all.
    """
    share, longest = run.series(CAPPED), run.series(LONGEST)
    limit = run.context.get(cures.RESPONSE)
    if not len(share) or not len(longest):
        return share
    cap = float(limit) if isinstance(limit, int | float) else float(longest.values.max())
    known = dict(zip(longest.steps.tolist(), longest.values.tolist(), strict=True))
    is_cut = np.array([known.get(step, cap) >= cap for step in share.steps.tolist()], dtype=bool)
    return Series(share.name, share.steps, np.where(is_cut, share.values, 0.0))


def _is_capped_at_once(shares: Floats) -> bool:
    """Whether the very first steps are: where a collapse begins soon, most of the early ones."""
    return float(shares[0]) >= 0.5 * _HALF_CAPPED and float(np.median(shares[:3])) >= _HALF_CAPPED


def _at_the_longest(length: Series) -> Series:
    """1 where a mean length equals the longest one: a run of equals at the end is a cap.

    Not so of a few tokens: a label and its end are all of one length, and so is nothing.
    """
    longest = length.values.max(initial=0.0)
    at_cap = length.values == longest
    if longest < 2 * _SHORT_TOKENS or len(length) < 10 or lasting(at_cap, 5) is None:
        return length.until(float("-inf"))
    return Series(length.name, length.steps, at_cap.astype(float))


def _always_capped(run: Run, capped: Series, first: float) -> Iterator[Finding]:
    """Every response of a whole run is a fault; most of them may be a small model's way."""
    every = len(capped) >= _WHOLE_RUN and float(capped.values.min()) > 0.99
    yield Finding(
        "collapse_entropy_or_length.cap_from_start",
        Severity.WARNING if every else Severity.INFO,
        f"{percent(first)} of the responses are cut at the cap from the start",
        f"From its first steps on {percent(first)} of the responses reach the longest length "
        "allowed, so ends are rarely seen. A thinking mode that fills the budget looks like this.",
        (run.seen(f"{percent(first)} of the responses at the cap", capped.step(0), share=first),),
        (cures.longer(run.context), Remedy("Switch thinking off in the chat template")),
        capped.step(0),
        confidence=0.8,
        source="hardening guide's logs: 64 of 64 tokens in 500 of 500 steps",
    )


def _entropy(run: Run) -> Iterator[Finding]:
    entropy = run.series("actor/entropy")
    if len(entropy) < 5:
        return
    first, values = early(entropy.values), smooth(entropy.values)
    up = (values > max(3 * first, first + 1.0)) | (values > max(4 * first, first + 0.5))
    fell = _fell(entropy, values, first)
    sound = entropy.values < 1.5 * first
    rose = since(entropy, up, sound)
    if fell is not None:
        yield _certain(run, entropy, first, *fell)
    if rose is not None:
        yield _uncertain(run, entropy, first, rose, Severity.ERROR)
        return
    paid = (values > max(4 * first, _NOT_CERTAIN)) & (entropy.steps >= _reward_lost(run))
    if (rose := since(entropy, paid, sound, _LASTS)) is not None:
        yield _uncertain(run, entropy, first, rose, Severity.WARNING)


def _reward_lost(run: Run) -> float:
    """The step since when the reward is lower than it was by more than noise; inf where it is not.

    Alone this may be a random walk; together with an entropy that multiplies it is none.
    """
    reward = run.series(metrics.REWARD_MEAN)
    found = drop(reward.values)
    return float("inf") if found is None or found.contrast < _CONTRAST else reward.step(found.place)


def _fell(entropy: Series, values: Floats, first: float) -> tuple[int, Severity] | None:
    """A slow decline is how learning looks, until nothing is left; a sudden one is not."""
    sound, low = entropy.values > 0.5 * first, values < min(0.1 * first, _LOW_ENTROPY)
    onset, place = since(entropy, low, sound), lasting(low, _STEPS)
    if onset is None or place is None:
        return None
    if entropy.step(place) - onset <= _FEW_STEPS:
        return onset, Severity.ERROR
    nothing_left = since(entropy, values < min(0.05 * first, _LOW_ENTROPY), sound)
    return None if nothing_left is None else (nothing_left, Severity.WARNING)


def _certain(run: Run, entropy: Series, first: float, onset: int, severity: Severity) -> Finding:
    now = float(np.median(entropy.values[-3:]))
    return Finding(
        "collapse_entropy_or_length.entropy",
        severity,
        f"Entropy collapsed to {figure(now)}",
        f"Entropy was {figure(first)} at first and is {figure(now)} (median of the last 3 steps) "
        f"since about step {onset}: the policy is certain of every token, the rollouts of a group "
        "become the same text, and nothing is explored any more.",
        (run.change(entropy, onset, "fell"), *_company(run, onset, entropy.name)),
        (
            cures.earlier_checkpoint(onset),
            _entropy_bonus(run),
            cures.setting(
                run.context,
                f"{cures.ACTOR}.clip_ratio_high",
                0.28,
                "Clip higher (DAPO)",
                "unlikely tokens can still gain",
            ),
            cures.gentler(run.context, 0.3),
        ),
        onset,
        source="arXiv 2505.22617",
    )


def _entropy_bonus(run: Run) -> Remedy:
    key, effect = f"{cures.ACTOR}.entropy_coeff", "keeps the policy from becoming certain"
    before = run.context.get(key)
    wanted = 3 * before if isinstance(before, float) and before > 0 else 0.003
    return cures.setting(run.context, key, wanted, "Raise the entropy bonus", effect)


def _uncertain(run: Run, entropy: Series, first: float, onset: int, severity: Severity) -> Finding:
    now = float(np.median(entropy.values[-3:]))
    policy = "writes nearly random text" if now > 1 else "is far less certain of its answers"
    verb = "exploded" if severity is Severity.ERROR else "grew while rewards fell,"
    return Finding(
        "collapse_entropy_or_length.entropy_explosion",
        severity,
        f"Entropy {verb} to {figure(now)}",
        f"Entropy was {figure(first)} at first and is {figure(now)} (median of the last 3 steps) "
        f"since about step {onset}: the policy {policy}. Updates are too large, or the entropy "
        "bonus outweighs the reward.",
        (run.change(entropy, onset, "rose"), *_company(run, onset, entropy.name)),
        (
            cures.earlier_checkpoint(onset),
            cures.gentler(run.context),
            cures.setting(
                run.context,
                f"{cures.ACTOR}.entropy_coeff",
                0,
                "Switch the entropy bonus off",
                "only the reward drives the policy",
            ),
            cures.held_near_reference(run.context),
        ),
        onset,
        source="classes: entropy far up",
    )


def _witnesses(run: Run, onset: int, length: Series) -> Iterator[Evidence]:
    if len(length) and _moved(length, onset):
        yield run.change(length, onset, "went")
    yield from _company(run, onset)


def _moved(series: Series, onset: int) -> bool:
    before, after = series.until(onset).values, series.since(onset).values
    if min(before.size, after.size) < _STEPS:
        return False
    was, now = float(np.median(before[-20:])), float(np.median(after[-3:]))
    return abs(now - was) > _NOTICEABLE * max(abs(was), abs(now))


def _company(run: Run, onset: int, told: str = "") -> Iterator[Evidence]:
    """What else moved at that time, as numbers and not as a verdict."""
    for name in (
        metrics.REWARD_MEAN,
        "actor/entropy",
        "actor/grad_norm",
        "actor/reward_kl_penalty",
    ):
        series = run.series(name)
        if series.name != told and _moved(series, onset):
            yield run.change(series, onset, "went")
