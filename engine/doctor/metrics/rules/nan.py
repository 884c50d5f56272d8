"""Rules for NaN and infinite rewards, losses, gradients and KL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.quantities import format_count
from engine.doctor.metrics.logged_run import LoggedRun, Series
from engine.doctor.metrics.series_stats import longest_stretch, tail_start
from engine.run.finding import Finding
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_LOSSES = ("actor/pg_loss", "actor/loss", metrics.TRAIN_LOSS, "critic/vf_loss")
_NO_LABELS = (
    "the loss is a mean over no label. Every label is masked (-100) if the marker that starts the "
    "answer is not found in a row, or if prompts fill the whole length and the answer is cut off. "
    "An overflow in fp16 looks the same"
)
_ALL_FAILED = 0.99
_NOT_ROUNDED = 0.5
_LASTS = 3
_HIGHEST = 100.0
"""No model has such a loss."""
_OFTEN = 0.05
"""From this share of steps on, NaN values are no accident."""


KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _nan_reward(run)
    findings = list(_nan_loss(run)) or list(_zero_loss(run))
    yield from findings
    if not any(finding.severity.is_alert for finding in findings):
        yield from _nan_kl(run)


def _nan_reward(run: LoggedRun) -> Iterator[Finding]:
    """Find a NaN reward, unless nearly all samples of these steps were reported as failed."""
    reward = run.raw(metrics.REWARD_MEAN)
    start, end = _nan_stretch(run, reward)
    failed = run.series(metrics.FAILED_SHARE).since(reward.step(start) if len(reward) else 0)
    if start == end or (len(failed) and failed.values.max() > _ALL_FAILED):
        return
    onset, count = reward.step(start), end - start
    evidence = run.evidence(f"{reward.name} is not a number", onset, steps=count)
    if end < len(reward) and count < _LASTS:
        steps = f"step {onset}" if count == 1 else f"{count} steps from step {onset} on"
        yield KINDS["nan_reward_for_a_moment"].finding(run.case(onset), evidence, steps=steps)
    else:
        yield KINDS["reward_function_error.nan"].finding(
            run.case(onset), evidence, steps=format_count(count, "step")
        )


def _nan_loss(run: LoggedRun) -> Iterator[Finding]:
    loss = _loss(run)
    norm = run.raw("actor/grad_norm")
    bad, (start, end) = loss, _nan_stretch(run, loss)
    if start == end:
        bad, (start, end) = norm, _nan_stretch(run, norm)
        is_skipped = len(norm) == 1 and _is_healthy(run, loss)
        if start == end or end < len(norm) or is_skipped:
            return  # Loss and later gradients are finite: the loss scaler skipped a step.
    if end < len(bad) and start == 0 and len(bad) - end >= _LASTS:
        return
    onset, count, metric = bad.step(start), end - start, bad.name
    case, text = run.case(onset), f"{metric} is not a number"
    if count < 2 and end < len(bad):
        yield KINDS["loss_nan.one_step"].finding(case, run.evidence(text, onset), metric=metric)
    elif bad is norm and start == 0 and not run.has_rewards and len(loss) and not loss.values.any():
        evidence = run.evidence(f"{text}, the loss is 0", onset, steps=count)
        yield KINDS["loss_nan.no_labels"].finding(
            case, evidence, metric=metric, steps=format_count(count, "step"), why=_NO_LABELS
        )
    else:
        evidence = run.evidence(text, onset, steps=count)
        before = _format_level(bad.until(onset).finite())
        yield KINDS["loss_nan"].finding(
            case, evidence, metric=metric, steps=format_count(count, "step"), before=before
        )


def _loss(run: LoggedRun) -> Series:
    return run.raw(next((name for name in _LOSSES if len(run.raw(name))), metrics.TRAIN_LOSS))


def _is_healthy(run: LoggedRun, loss: Series) -> bool:
    """Return whether the loss explains a single gradient that overflowed: AMP searches its scale.

    HF's Trainer logs 0 for losses that are NaN.
    """
    last = abs(float(loss.values[-1])) if len(loss) else float("inf")
    validation = run.raw(metrics.VALIDATION_LOSS)
    is_zero = last == 0 and not run.has_rewards
    return last < _HIGHEST and not is_zero and not np.isnan(validation.values[-1:]).any()


def _format_level(before: Series) -> str:
    """Format the level before the NaN values; the last number may already be of a bad step."""
    if not len(before):
        return ""
    level, last = float(np.median(before.values[-20:])), float(before.values[-1])
    spike = f", and {last:.4g} in the step before" if abs(last - level) > 2 * abs(level) else ""
    return f" Before, it was about {level:.4g}{spike}."


def _zero_loss(run: LoggedRun) -> Iterator[Finding]:
    """Find a loss of 0 from the start or from one record to the next, without gradients."""
    loss, norm = run.series(metrics.TRAIN_LOSS), run.series("actor/grad_norm")
    index = tail_start(loss.values == 0, _LASTS)
    if loss.name != metrics.TRAIN_LOSS or index is None:
        return
    onset, before = loss.step(index), loss.values[:index]
    if len(norm.since(onset)) or (before.size and before[-1] < _NOT_ROUNDED):
        return
    count = len(loss) - index
    yield KINDS["loss_nan.vanished"].finding(
        run.case(onset),
        run.evidence("the loss is exactly 0", onset, steps=count),
        verb="falls at once to" if before.size else "is",
        before=f"The loss was {before[-1]:.4g} and is" if before.size else "The loss is",
        count=count,
    )


def _nan_kl(run: LoggedRun) -> Iterator[Finding]:
    """Find a KL that is NaN in some steps only: it overflows for single rollouts."""
    kl = run.raw("actor/kl_loss")
    bad = np.isnan(kl.values)
    count = int(bad.sum())
    if count < max(_LASTS, _OFTEN * len(kl)) or bad.all():
        return
    onset = kl.step(int(np.argmax(bad)))
    yield KINDS["loss_nan.kl"].finding(
        run.case(onset),
        run.evidence(f"{kl.name} is not a number", onset, steps=count),
        metric=kl.name,
        count=count,
        steps=len(kl),
    )


def _nan_stretch(run: LoggedRun, series: Series) -> tuple[int, int]:
    """Return start and end of the longest NaN stretch; a metric with no number needs two steps."""
    start, end = longest_stretch(np.isnan(series.values))
    return (0, 0) if end - start == 1 == len(series) and not run.is_short else (start, end)


def has_no_loss(run: LoggedRun) -> bool:
    """Return whether no record of several has a finite loss: that is no accident."""
    loss = _loss(run)
    return len(loss) >= _LASTS and bool(np.isnan(loss.values).all())


RULE = Rule(check)
