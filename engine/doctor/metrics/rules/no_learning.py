"""Rules for training that changes nothing: no gradient, a constant loss, a learning rate of 0."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.logged_run import (
    LoggedRun,
    Series,
    figure,
    learning_rate,
    prints_small_numbers,
)
from engine.doctor.metrics.series_stats import tail_start
from engine.run import fixes
from engine.run.finding import Finding, Fix, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics
from engine.run.rule_context import RuleContext
from engine.run.trainer_settings import key_of

_STEPS = 5
_ZEROS = 3
_EXACT_STEPS = 10
_LR_STEPS = 10
_EVALUATIONS = 4
_CHANCE_TOLERANCE = 1e-3
KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    constant = list(_constant_loss(run))
    yield from constant or _at_chance(run)
    yield from _no_gradient(run)
    yield from _no_rate(run)
    yield from _not_begun(run)
    yield from _never_warm(run)
    yield from _same_validation(run)


def _constant_loss(run: LoggedRun) -> Iterator[Finding]:
    loss, norm = run.series(metrics.TRAIN_LOSS), run.series("actor/grad_norm")
    if loss.name != metrics.TRAIN_LOSS or len(loss) < run.least(_ZEROS, loss):
        return
    last = float(loss.values[-1])
    same = np.abs(loss.values - last) <= 1e-4 * max(abs(last), 1e-3)
    index = tail_start(same, run.least(_STEPS if last else _ZEROS, loss))
    if index is None:
        return
    onset, count = loss.step(index), len(loss) - index
    gradients, margins = norm.since(onset), run.first("rewards/margins", "rewards/accuracies")
    no_gradient = len(gradients) > 0 and not gradients.values.any()
    is_pair_loss = bool(len(margins)) and not margins.since(onset).values.any()
    at_chance = is_pair_loss and abs(last - math.log(2)) < 1e-3
    # Unless the gradient is known to be 0, only an exact constant counts, as a warning.
    is_certain = no_gradient or at_chance
    if run.is_short:  # A single loss other than 0 may be that of a skipped step.
        is_skipped = len(loss) == 1 and last != 0 and not at_chance
        is_certain = no_gradient and not is_skipped and _is_updated(run)
    if not is_certain and (run.is_short or len(gradients) or not _is_exact(run, loss)):
        return
    why = "no trainable parameter has a gradient"
    if is_pair_loss:
        why = (
            "policy and reference give every response the same probability (ln 2 = 0.693 is the "
            "loss of a margin of 0)"
        )
    elif not len(gradients):
        why = "other weights and other data give another loss, if only in the last digit"
    yield KINDS["loss_flat_no_learning"].finding(
        run.case(onset),
        run.evidence("the loss does not change", onset, loss=last, steps=count),
        severity=None if is_certain else Severity.WARNING,
        confidence=None if is_certain else 0.6,
        fixes=KINDS.fixes("pairs", run.case(onset)) if is_pair_loss else None,
        loss=figure(last),
        exact=f"{last:.4g}",
        count=count,
        why=why,
    )


def _is_updated(run: LoggedRun) -> bool:
    """Return whether there is a learning rate, and a gradient of 0 is no rounded one."""
    rate = learning_rate(run)
    return bool(not len(rate) or rate.values.any()) and prints_small_numbers(run)


def _is_exact(run: LoggedRun, loss: Series) -> bool:
    """Return whether the loss has been one number of at least four digits from the first step on.

    A loss that becomes constant later may have converged. Warm-ups and DPO's ln 2 also begin with a
    constant loss, and progress bars repeat the newest one.
    """
    last, rate = float(loss.values[-1]), learning_rate(run).values
    warms_up = bool(len(rate)) and (rate.min() <= 0 or bool(np.any(np.diff(rate) > 0)))
    if run.context.is_counted or warms_up or np.ptp(loss.values):
        return False
    if abs(last - math.log(2)) < _CHANCE_TOLERANCE:
        return False
    return len(np.unique(loss.steps)) >= _EXACT_STEPS and float(f"{last:.3g}") != last


def _at_chance(run: LoggedRun) -> Iterator[Finding]:
    """Find a loss that stays at ln 2 after the warm-up: two answers remain equally likely."""
    loss, rate = run.series(metrics.TRAIN_LOSS), learning_rate(run)
    peak = rate.step(int(np.argmax(rate.values))) if len(rate) else -1
    warm = loss.since(peak)
    index = tail_start(np.abs(warm.values - math.log(2)) < _CHANCE_TOLERANCE, _STEPS)
    if index is None or loss.name != metrics.TRAIN_LOSS:
        return
    onset, count = warm.step(index), len(warm) - index
    evidence = run.evidence("loss at ln 2", onset, loss=float(loss.values[-1]), records=count)
    yield KINDS["loss_flat_no_learning.chance"].finding(run.case(onset), evidence, count=count)


def _no_gradient(run: LoggedRun) -> Iterator[Finding]:
    """Find gradients of exactly 0 although rewards differ: nothing is trained."""
    norm, std = run.series("actor/grad_norm"), run.series(metrics.REWARD_STD)
    index = tail_start(norm.values == 0, run.least(_STEPS, norm))
    if index is None or not len(std) or (run.is_short and not _is_updated(run)):
        return
    onset, count = norm.step(index), len(norm) - index
    stds = std.since(onset).values
    share = run.series(metrics.ZERO_STD_SHARE).since(onset).values
    if not stds.size or stds.min() < 1e-3 or (share.size and share.max() > 0.5):
        return
    yield KINDS["loss_flat_no_learning.no_gradient"].finding(
        run.case(onset),
        run.evidence("gradient norm is exactly 0", onset, steps=count),
        spread=figure(float(np.median(stds))),
        count=count,
    )


def _no_rate(run: LoggedRun) -> Iterator[Finding]:
    rate = learning_rate(run)
    if len(rate) < _LR_STEPS or rate.values.any():
        return
    if not prints_small_numbers(run, "actor/grad_norm", metrics.TRAIN_LOSS):
        return
    onset, count = rate.step(0), len(rate)
    yield KINDS["loss_flat_no_learning.rate_zero"].finding(
        run.case(onset), run.evidence(f"{rate.name} is 0", onset, steps=count), count=count
    )


def _not_begun(run: LoggedRun) -> Iterator[Finding]:
    """Find a few records in which neither learning rate nor gradient has left 0."""
    rate, norm = learning_rate(run), run.series("actor/grad_norm")
    if not run.is_short or min(len(norm), len(rate)) < _ZEROS:
        return
    if rate.values.any() or norm.values.any() or not prints_small_numbers(run):
        return
    onset, count = norm.step(0), len(norm)
    evidence = run.evidence("learning rate and gradient norm are 0", onset, steps=count)
    yield KINDS["loss_flat_no_learning.not_begun"].finding(run.case(onset), evidence, count=count)


def _same_validation(run: LoggedRun) -> Iterator[Finding]:
    """Find a constant validation loss: changed weights would change at least its last digit."""
    held_out, loss = run.series(metrics.VALIDATION_LOSS), run.series(metrics.TRAIN_LOSS)
    if len(held_out) < _EVALUATIONS or np.ptp(held_out.values) or len(loss) < _EVALUATIONS:
        return
    value, level = float(held_out.values[0]), abs(float(np.median(loss.values)))
    # Progress bars repeat the last validation with three digits, and tables round.
    if float(f"{value:.3g}") == value or np.ptp(loss.values) < 0.1 * level:
        return
    yield KINDS["loss_flat_no_learning.validation"].finding(
        run.case(held_out.step(1)),
        run.evidence("the validation loss does not change", held_out.step(-1), loss=value),
        loss=f"{value:.6g}",
        count=len(held_out),
    )


def _never_warm(run: LoggedRun) -> Iterator[Finding]:
    kind = run.context.kind
    peak = run.context.get(kind.learning_rate_key) if kind else None
    rate, total = learning_rate(run), run.context.total_steps
    if not isinstance(peak, int | float) or total is None or len(rate) < _STEPS:
        return
    steps = _warmup_steps(run.context, total)
    is_rising = bool(np.all(np.diff(rate.values) >= 0)) and rate.values[-1] < peak
    if steps is None or steps < total or not is_rising:
        return
    yield KINDS["loss_flat_no_learning.never_warm"].finding(
        run.case(rate.step(0)),
        run.evidence(f"{rate.name} still rises", rate.step(-1), rate=float(rate.values[-1])),
        fixes=(_shorter_warmup(run.context, total),),
        steps=f"{steps:g}",
        total=total,
        reached=figure(peak * total / steps),
        peak=figure(peak),
    )


def _warmup_keys(context: RuleContext) -> tuple[str, str | None]:
    """Return the keys of the warm-up in steps and as a share of the run."""
    kind = context.kind
    return key_of("warmup_steps"), kind.warmup_ratio_key if kind else None


def _warmup_steps(context: RuleContext, total: int) -> float | None:
    """Return the number of configured warm-up steps."""
    steps, ratio = (context.get(key) for key in _warmup_keys(context))
    if isinstance(steps, int) and steps > 0:
        return steps
    share = ratio or 0
    return share * total if isinstance(share, int | float) else None


def _shorter_warmup(context: RuleContext, total: int) -> Fix:
    in_steps, as_ratio = _warmup_keys(context)
    steps = context.get(in_steps)
    is_in_steps = isinstance(steps, int) and steps > 0
    key, after = (in_steps, max(1, total // 10)) if is_in_steps else (as_ratio, 0.1)
    return fixes.setting(
        context, key, after, "Warm up over a tenth of the steps", "the full rate after it"
    )


RULE = Rule(check)
