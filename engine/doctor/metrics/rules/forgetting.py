"""Learned, then forgotten: the reward reached a level and lost most of it.

Three shapes. A drop: within a few steps the reward falls by at least 12 times its noise and never
comes back (a random walk hardly reaches 9). A slide: a fall from the peak 3 times as deep as a
random walk of the same steps falls on average, which loses 60 % of what was gained. For series of
a few distinct values (one answer a step): block means that fall by 30 % of the range and by more
than chance.
Ruled out: noise and drift (both shapes are measured against them), a fall of less than a quarter
of the possible rewards where these are known, single dips that recover.
Source: hardening guide's logs (a policy that collapses at step 4); drawdown of a random walk as
the null (see ``shape.fall``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.doctor.metrics.series_stats import decline, drop, early, fall
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

_CONTRAST = 12.0
_EXCESS = 3.0
_LOST = 0.6
_SHARE_OF_RANGE = 0.25
_FEW = 8
"""Fewer steps than this say nothing about a level."""


def check(run: Run) -> Iterator[Finding]:
    reward = run.series(metrics.REWARD_MEAN)
    if len(reward) < _FEW:
        return
    found = _dropped(run, reward) or _slid(run, reward) or _unlearned(run)
    if found is not None:
        yield _finding(run, reward, *found)


def _dropped(run: Run, reward: Series) -> tuple[int, float, float] | None:
    """``(step, before, after)`` of a sudden, lasting loss."""
    found = drop(reward.values)
    if found is None or found.contrast < _CONTRAST:
        return None
    if not _matters(run, reward, found.before - found.after):
        return None
    return reward.step(found.place), found.before, found.after


def _slid(run: Run, reward: Series) -> tuple[int, float, float] | None:
    found = fall(reward.values)
    if found is None or found.excess < _EXCESS:
        return None
    start = early(reward.values)
    gained, lost = found.high - start, found.high - found.low
    if lost < _LOST * gained or not _matters(run, reward, lost):
        return None
    return reward.step(found.bottom), found.high, found.low


def _unlearned(run: Run) -> tuple[int, float, float] | None:
    """One answer a step, right or wrong: what shows is how often it is right."""
    reward = run.first("json_valid", metrics.REWARD_MEAN)
    found = decline(reward.values)
    if found is None or found.excess < 1:
        return None
    start, lost = early(reward.values), found.high - found.low
    if lost < max(0.3 * float(np.ptp(reward.values)), _LOST * (found.high - start)):
        return None
    return reward.step(found.bottom), found.high, found.low


def _matters(run: Run, reward: Series, lost: float) -> bool:
    known = run.context.reward_range
    tops = run.first(metrics.REWARD_MAX, metrics.REWARD_MEAN).values
    bottoms = run.first(metrics.REWARD_MIN, metrics.REWARD_MEAN).values
    low, high = known or (float(bottoms.min()), float(tops.max()))
    return lost >= _SHARE_OF_RANGE * (high - low)


def _finding(run: Run, reward: Series, onset: int, before: float, after: float) -> Finding:
    best = reward.until(onset)
    peak = best.step(int(np.argmax(best.values))) if len(best) else onset
    return Finding(
        "collapse_entropy_or_length.reward",
        Severity.ERROR,
        "What was learned is lost",
        f"The mean reward was about {figure(before)} (best at step {peak}) and is about "
        f"{figure(after)} since step {onset}: the policy got worse and stays so. "
        f"{_boundary(run, onset)}",
        (
            run.seen("mean reward fell", onset, before=before, after=after),
            *_validation(run, onset),
        ),
        (
            cures.earlier_checkpoint(onset),
            cures.gentler(run.context, 0.3),
            cures.held_near_reference(run.context),
            Remedy("Keep the checkpoint with the best validation reward, not the last one"),
        ),
        onset,
        confidence=0.9,
        source="level shift and drawdown against a random walk",
    )


def _boundary(run: Run, onset: int) -> str:
    """A fall where an attempt begins: it may not have gone on from what was learned."""
    for start in run.context.starts[1:]:
        if abs(start.first_step - onset) <= 1:
            return (
                f"Attempt {start.attempt} begins there: check that it went on from the "
                "checkpoint and not from the base model."
            )
    return "The last checkpoint before it is better than the newest."


def _validation(run: Run, onset: int) -> Iterator[Evidence]:
    validation = run.series(metrics.VALIDATION_REWARD)
    before, after = validation.until(onset), validation.since(onset)
    if not len(before) or not len(after):
        return
    best, now = float(before.values.max()), float(after.values[-1])
    word = "fell too" if now < best else "did not fall"
    text = f"validation reward {word}: {figure(best)} before, {figure(now)} at the end"
    change = percent(abs(now - best) / max(abs(best), 1e-9))
    yield run.seen(text, after.step(-1), best=best, last=now, change=change)
