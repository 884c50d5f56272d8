"""Training that moves nothing: no gradient, a constant loss, a learning rate of 0.

Shape: the loss is the same number in all of the last 5 steps (a 0 in 3) and the gradient norm 0,
or, where no gradient is logged, the same of four digits and more in all of at least 10 steps that
have numbers; a validation loss that is one number of four digits and more in all of at least 4
evaluations while the training loss moves;
DPO at 0.693 = ln 2 with margins of 0, or any loss there for 5 records after the warm-up; groups
with spread and yet a gradient of exactly 0; a learning rate that is 0 in all of at least 10 steps,
or still warming up when the run ends.
Ruled out: a policy loss of 0 (on-policy GRPO's loss is 0 by construction); rewards without spread
(``flat_reward``); logs that print three decimals, in which 2e-6 reads 0.000.
Source: classes ("loss 0.69 and margins 0 in DPO, logits 0.0"); verl's three-decimal console.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure
from engine.doctor.metrics.series_stats import lasting, rounded
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_STEPS = 5
_ZEROS = 3
_EXACT_STEPS = 10
_LR_STEPS = 10
_EVALUATIONS = 4
_OF_CHANCE = 1e-3
_TRAINABLE = Remedy(
    "Check which parameters can train: adapter attached, nothing frozen, input gradients on",
    (),
    "the gradient is no longer 0",
)


def check(run: Run) -> Iterator[Finding]:
    constant = list(_constant_loss(run))
    yield from constant or _at_chance(run)
    yield from _no_gradient(run)
    yield from _no_rate(run)
    yield from _never_warm(run)
    yield from _same_validation(run)


def _constant_loss(run: Run) -> Iterator[Finding]:
    loss, norm = run.series(metrics.TRAIN_LOSS), run.series("actor/grad_norm")
    if loss.name != metrics.TRAIN_LOSS or len(loss) < _ZEROS:
        return
    last = loss.values[-1]
    same = np.abs(loss.values - last) <= 1e-4 * max(abs(last), 1e-3)
    place = lasting(same, _STEPS if last else _ZEROS)
    if place is None:
        return
    onset = loss.step(place)
    gradients, margins = norm.since(onset), run.first("rewards/margins", "rewards/accuracies")
    still = len(gradients) > 0 and not gradients.values.any()
    preference = bool(len(margins)) and not margins.since(onset).values.any()
    chance = preference and abs(last - math.log(2)) < 1e-3
    if still or chance:
        yield _flat(run, loss, place, preference)
    elif not len(gradients) and _is_exact(run, loss):
        flat = _flat(run, loss, place, preference)
        yield replace(flat, severity=Severity.WARNING, confidence=0.6)


def _is_exact(run: Run, loss: Series) -> bool:
    """Whether the loss is one number of four digits and more from the first of many steps on.

    Later it may have converged. A rate that warms up, and DPO's ln 2, begin so, and a bar repeats
    the newest loss.
    """
    last, rate = float(loss.values[-1]), run.first("actor/lr", "train/lr").values
    warms_up = bool(len(rate)) and (rate.min() <= 0 or bool(np.any(np.diff(rate) > 0)))
    if run.context.is_counted or warms_up or np.ptp(loss.values):
        return False
    if abs(last - math.log(2)) < _OF_CHANCE:
        return False
    return len(np.unique(loss.steps)) >= _EXACT_STEPS and float(f"{last:.3g}") != last


def _flat(run: Run, loss: Series, place: int, preference: bool) -> Finding:
    onset, last = loss.step(place), float(loss.values[-1])
    why = "no parameter that is trained has a gradient"
    if not len(run.series("actor/grad_norm").since(onset)):
        why = "other weights and other data give another loss, if only in the last digit"
    remedies: tuple[Remedy, ...] = (_TRAINABLE, Remedy("Check that the labels are not all -100"))
    if preference:
        why = (
            "policy and reference give every answer the same probability (ln 2 = 0.693 is the loss "
            "of a margin of 0)"
        )
        remedies = (_TRAINABLE, Remedy("Check the reference model's set-up (ZeRO-3, adapters)"))
    return Finding(
        "loss_flat_no_learning",
        Severity.ERROR,
        f"The loss stays at {figure(last)}",
        f"The loss has been {last:.4g} in all of the last {len(loss) - place} steps, since step "
        f"{onset}: {why}.",
        (run.seen("the loss does not change", onset, loss=last, steps=len(loss) - place),),
        remedies,
        onset,
        source="classes: loss constant with gradient 0",
    )


def _at_chance(run: Run) -> Iterator[Finding]:
    """A loss that never leaves ln 2, after the warm-up: two answers stay equally likely."""
    loss, rate = run.series(metrics.TRAIN_LOSS), run.first("actor/lr", "train/lr")
    warm = rate.step(int(np.argmax(rate.values))) if len(rate) else -1
    settled = loss.since(warm)
    place = lasting(np.abs(settled.values - math.log(2)) < _OF_CHANCE, _STEPS)
    if place is None or loss.name != metrics.TRAIN_LOSS:
        return
    onset, count = settled.step(place), len(settled) - place
    yield Finding(
        "loss_flat_no_learning.chance",
        Severity.WARNING,
        "The loss stays at ln 2",
        f"The loss has been 0.693 in the last {count} records, since step {onset}: that of a "
        "choice between two that is left to chance. Nothing is learned.",
        (run.seen("loss at ln 2", onset, loss=float(loss.values[-1]), records=count),),
        (
            _TRAINABLE,
            Remedy("Check that the two sides of a pair differ, and a learning rate that is larger"),
        ),
        onset,
        confidence=0.7,
        source="DPO, binary cross-entropy: -log(1/2) = 0.693",
    )


def _no_gradient(run: Run) -> Iterator[Finding]:
    """Rewards with spread must give a gradient: exact zeros mean that nothing is trained."""
    norm, spread = run.series("actor/grad_norm"), run.series(metrics.REWARD_STD)
    place = lasting(norm.values == 0, _STEPS)
    if place is None or not len(spread):
        return
    onset = norm.step(place)
    moving = spread.since(onset).values
    share = run.series(metrics.ZERO_STD_SHARE).since(onset).values
    if not moving.size or moving.min() < 1e-3 or (share.size and share.max() > 0.5):
        return
    yield Finding(
        "loss_flat_no_learning.no_gradient",
        Severity.ERROR,
        "Rewards differ, but the gradient is 0",
        f"The rewards of a group differ (median std {figure(float(np.median(moving)))}), and yet "
        f"the gradient norm is exactly 0 in the last {len(norm) - place} steps, since step "
        f"{onset}: no trained parameter takes part in the loss.",
        (run.seen("gradient norm is exactly 0", onset, steps=len(norm) - place),),
        (_TRAINABLE,),
        onset,
        source="GRPO: a non-zero advantage has a gradient",
    )


def _no_rate(run: Run) -> Iterator[Finding]:
    rate = run.first("actor/lr", "train/lr")
    if len(rate) < _LR_STEPS or rate.values.any() or _is_rounded(run):
        return
    kind = run.context.kind
    key = kind.learning_rate_key if kind else None
    wanted = kind.usual_learning_rate if kind else 1e-6
    yield Finding(
        "loss_flat_no_learning.rate_zero",
        Severity.ERROR,
        "The learning rate is 0",
        f"The learning rate is 0 in all {len(rate)} steps: the weights never change.",
        (run.seen(f"{rate.name} is 0", rate.step(0), steps=len(rate)),),
        (
            cures.setting(
                run.context, key, wanted, f"Set the learning rate, e.g. {wanted:g}", "steps train"
            ),
        ),
        rate.step(0),
        source="the schedule's own values",
    )


def _same_validation(run: Run) -> Iterator[Finding]:
    """Weights that change give another loss, if only in the last digit."""
    held_out, loss = run.series(metrics.VALIDATION_LOSS), run.series(metrics.TRAIN_LOSS)
    if len(held_out) < _EVALUATIONS or np.ptp(held_out.values) or len(loss) < _EVALUATIONS:
        return
    value, level = float(held_out.values[0]), abs(float(np.median(loss.values)))
    # Bars repeat the last validation with three digits, and tables round.
    if float(f"{value:.3g}") == value or np.ptp(loss.values) < 0.1 * level:
        return
    yield Finding(
        "loss_flat_no_learning.validation",
        Severity.WARNING,
        "Every validation gives the same loss",
        f"The validation loss is {value:.6g} in all {len(held_out)} evaluations, while the "
        "training loss moves: what is evaluated is not what is trained.",
        (run.seen("the validation loss does not change", held_out.step(-1), loss=value),),
        (
            Remedy("Check that the model that is evaluated is the one that the optimiser updates"),
            _TRAINABLE,
        ),
        held_out.step(1),
        confidence=0.7,
        source="the same weights give the same loss",
    )


def _is_rounded(run: Run) -> bool:
    """Whether the log prints three decimals: a rate of 2e-6 then reads 0.000."""
    values = np.concatenate(
        [run.series(name).values[:50] for name in ("actor/grad_norm", metrics.TRAIN_LOSS)]
    )
    return rounded(values)


def _never_warm(run: Run) -> Iterator[Finding]:
    """A warm-up longer than the run. Needs the recipe: without it a ramp may be anything."""
    kind = run.context.kind
    if kind is None:
        return
    peak = run.context.get(kind.learning_rate_key)
    rate, total = run.first("actor/lr", "train/lr"), run.context.total_steps
    if not isinstance(peak, int | float) or total is None or len(rate) < _STEPS:
        return
    warmup = run.context.get(f"{cures.ACTOR}.optim.lr_warmup_steps")
    ratio_key = kind.warmup_ratio_key
    ratio = run.context.get(ratio_key)
    steps = warmup if isinstance(warmup, int) and warmup > 0 else (ratio or 0) * total
    if not isinstance(steps, int | float) or steps < total:
        return
    rising = bool(np.all(np.diff(rate.values) >= 0)) and rate.values[-1] < peak
    if not rising:
        return
    key = ratio_key if steps != warmup else f"{cures.ACTOR}.optim.lr_warmup_steps"
    after = 0.1 if key == ratio_key else max(1, total // 10)
    yield Finding(
        "loss_flat_no_learning.never_warm",
        Severity.WARNING,
        "The learning rate never reaches its value",
        f"The warm-up takes {steps:g} steps and the run has {total}: the learning rate ends at "
        f"{figure(peak * total / steps)} instead of {figure(peak)}.",
        (run.seen(f"{rate.name} still rises", rate.step(-1), rate=float(rate.values[-1])),),
        (cures.setting(run.context, key, after, "Warm up over a tenth", "full rate after it"),),
        rate.step(0),
        source="warm-up steps >= total steps",
    )
