"""Rules for a run that becomes worse again: a reward that drops, a validation that falls."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.logged_run import LENGTH, LoggedRun, Series, figure, percent
from engine.doctor.metrics.series_stats import (
    early_level,
    find_decline,
    find_drop,
    find_fall,
    late_level,
    noise,
    trend,
)
from engine.run.finding import Evidence, Finding
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_CONTRAST = 12.0
_EXCESS = 3.0
_LOST = 0.6
_SHARE_OF_RANGE = 0.25
_FEW = 8
"""Fewer steps do not show a level."""
_LEVEL = 2
"""A single step with a higher reward is no level that was lost."""
_VALIDATIONS = 5
_PATIENCE = 3
_RISE = 1.15
_FALL, _FALL_NOISE, _FALL_TREND = 0.25, 4.0, -0.6
_SCORE = re.compile(
    r"(?:val|valid|validation|eval|evaluation|test)[/_-](?!.*(?:loss|std|len|time|count|num|min|max))"
    r".*(?:reward|score|acc|pass@|pass_|success|solve|mean@).*"
)
"""Names of what a validation scores, of any trainer."""

KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _lost_reward(run)
    yield from _overfitting(run)
    yield from _validation_falls(run)


def _lost_reward(run: LoggedRun) -> Iterator[Finding]:
    reward = run.series(metrics.REWARD_MEAN)
    if len(reward) < _FEW:
        return
    loss = _dropped(run, reward) or _slid(run, reward) or _unlearned(run)
    if loss is None:
        return
    onset, before, after = loss
    best = reward.until(onset)
    if np.count_nonzero(best.values > (before + after) / 2) < _LEVEL:
        return
    yield KINDS["collapse_entropy_or_length.reward"].finding(
        run.case(onset),
        run.evidence("mean reward fell", onset, before=before, after=after),
        *_validation(run, onset),
        before=figure(before),
        after=figure(after),
        peak=best.step(int(np.argmax(best.values))) if len(best) else onset,
        boundary=_boundary(run, onset),
    )


def _dropped(run: LoggedRun, reward: Series) -> tuple[int, float, float] | None:
    """Return step, level before and level after of a sudden, lasting drop."""
    drop = find_drop(reward.values)
    if drop is None or drop.contrast < _CONTRAST:
        return None
    if not _is_large(run, drop.before - drop.after):
        return None
    return reward.step(drop.index), drop.before, drop.after


def _slid(run: LoggedRun, reward: Series) -> tuple[int, float, float] | None:
    fall = find_fall(reward.values)
    if fall is None or fall.excess < _EXCESS:
        return None
    gained, lost = fall.high - early_level(reward.values), fall.high - fall.low
    if lost < _LOST * gained or not _is_large(run, lost):
        return None
    return reward.step(fall.bottom), fall.high, fall.low


def _unlearned(run: LoggedRun) -> tuple[int, float, float] | None:
    """Return the fall of how often the single response of a step is right."""
    reward = run.first("json_valid", metrics.REWARD_MEAN)
    fall = find_decline(reward.values)
    if fall is None or fall.excess < 1:
        return None
    gained, lost = fall.high - early_level(reward.values), fall.high - fall.low
    if lost < max(0.3 * float(np.ptp(reward.values)), _LOST * gained):
        return None
    return reward.step(fall.bottom), fall.high, fall.low


def _is_large(run: LoggedRun, lost: float) -> bool:
    """Return whether a drop is a quarter of the possible rewards, else of those logged."""
    tops = run.first(metrics.REWARD_MAX, metrics.REWARD_MEAN).values
    bottoms = run.first(metrics.REWARD_MIN, metrics.REWARD_MEAN).values
    low, high = run.context.reward_range or (float(bottoms.min()), float(tops.max()))
    return lost >= _SHARE_OF_RANGE * (high - low)


def _boundary(run: LoggedRun, onset: int) -> str:
    """Say whether an attempt begins there, which may not have resumed from the checkpoint."""
    for start in run.context.starts[1:]:
        if abs(start.first_step - onset) <= 1:
            return (
                f"Attempt {start.attempt} begins there: check that it resumed from the checkpoint, "
                "not from the base model."
            )
    return "The last checkpoint before it is better than the newest."


def _validation(run: LoggedRun, onset: int) -> Iterator[Evidence]:
    validation = run.series(metrics.VALIDATION_REWARD)
    before, after = validation.until(onset), validation.since(onset)
    if not len(before) or not len(after):
        return
    best, now = float(before.values.max()), float(after.values[-1])
    word = "fell too" if now < best else "did not fall"
    text = f"validation reward {word}: {figure(best)} before, {figure(now)} at the end"
    change = percent(abs(now - best) / max(abs(best), 1e-9))
    yield run.evidence(text, after.step(-1), best=best, last=now, change=change)


def _overfitting(run: LoggedRun) -> Iterator[Finding]:
    validation, training = run.series(metrics.VALIDATION_LOSS), run.series(metrics.TRAIN_LOSS)
    if len(validation) < _VALIDATIONS or training.name != metrics.TRAIN_LOSS:
        return
    best = int(np.argmin(validation.values))
    lowest, last = float(validation.values[best]), validation.values[-_PATIENCE:]
    if len(validation) - 1 - best < _PATIENCE or lowest <= 0:
        return
    if last.min() < _RISE * lowest or last[-1] < last[0]:
        return
    onset, newest = validation.step(best), float(last[-1])
    before, after = training.until(onset).values[-10:], training.since(onset).values[-10:]
    if not before.size or not after.size or np.median(after) >= np.median(before):
        return
    text = f"{validation.name} rose from {figure(lowest)} to {figure(newest)}"
    yield KINDS["overfitting"].finding(
        run.case(onset),
        run.evidence(text, onset, before=lowest, after=newest),
        lowest=figure(lowest),
        last=figure(newest),
        before=figure(float(np.median(before))),
        after=figure(float(np.median(after))),
    )


def _validation_falls(run: LoggedRun) -> Iterator[Finding]:
    """Find the held-out score that fell furthest while the training reward rose."""
    reward = run.series(metrics.REWARD_MEAN)
    known = run.series(metrics.VALIDATION_REWARD)
    scores = (
        [known]
        if len(known)
        else [run.named(name) for name in run.columns.names if _SCORE.fullmatch(name)]
    )
    falls = [(fall, score) for score in scores if (fall := _steady_fall(score)) is not None]
    if not falls or len(reward) < _FEW:
        return
    _, score = max(falls, key=lambda pair: pair[0])
    best = int(np.argmax(score.values))
    onset = score.step(best)
    width = max(3, min(10, len(reward) // 4))
    earlier = reward.until(onset + 1).values[-width:]
    before = float(np.median(earlier if earlier.size >= 3 else reward.values[:width]))
    after = float(np.median(reward.values[-width:]))
    if after - before < max(2 * noise(reward.values), 0.05 * float(np.ptp(reward.values))):
        return
    last = float(score.values[-1])
    top = float(score.values[best])
    length = run.series(LENGTH)
    yield KINDS["overfitting.validation_reward"].finding(
        run.case(onset),
        run.evidence(f"{score.name} fell from {figure(top)} to {figure(last)}", onset, last=last),
        run.evidence(
            f"{reward.name} rose from {figure(before)} to {figure(after)}", onset, after=after
        ),
        *(
            run.change(series, onset, "went")
            for series in (length, run.series("actor/kl_loss"))
            if len(series.until(onset)) and len(series.since(onset)) >= _PATIENCE
        ),
        metric=score.name,
        best=figure(top),
        last=figure(last),
        before=figure(before),
        after=figure(after),
    )


def _steady_fall(score: Series) -> float | None:
    """Return by which share of its best value a score fell since, steadily to the end."""
    if len(score) < _VALIDATIONS:
        return None
    best = int(np.argmax(score.values))
    since, top = score.values[best:], float(score.values[best])
    fall = top - float(score.values[-_PATIENCE:].max())
    if since.size <= _PATIENCE or top <= 0 or fall < _FALL * top:
        return None
    is_clear = top - late_level(since, _PATIENCE) >= _FALL_NOISE * noise(score.values)
    return fall / top if is_clear and trend(since) <= _FALL_TREND else None


RULE = Rule(check)
