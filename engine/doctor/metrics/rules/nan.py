"""Numbers that are none: NaN or infinite rewards, losses and gradients.

Shape: a value that is null, NaN or infinite (readers make all three NaN) in the reward, the loss
or the gradient norm; in the KL in one of twenty steps. Ruled out: a gradient norm that overflows in
the first steps and then does not (the loss scaler of AMP finds its scale so), one bad step that was
skipped (info), a loss that begins with none and has one then (no update was made yet: NaN weights
do not heal), and a metric that never had a number while the loss has (it is simply not logged).
Shape too: a cross-entropy that is exactly 0 from the start, or from one record to the next, and
stays so: HF's Trainer writes 0 for losses that are none. One that was small already was rounded.
Source: the NaN guard of agent_stable_slo's trainer; verl 0.9.1 trains on a NaN reward to the end
and exits with code 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series
from engine.doctor.metrics.series_stats import lasting, longest
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

LOSSES = ("actor/pg_loss", "actor/loss", metrics.TRAIN_LOSS, "critic/vf_loss")
NO_LABELS = (
    "a mean over no label at all. Every label is masked (-100) where the marker that the answer "
    "begins with is not found in a row, or where prompts fill the whole length and the answer is "
    "cut off. In fp16 an overflow looks the same"
)
WITHOUT_LABELS = (
    Remedy(
        "Count the labels of one batch that are not -100", (), "0 means that nothing is learned"
    ),
    Remedy("Take the marker of the answer from what the chat template writes, token by token"),
    Remedy("Allow longer rows, or shorten the prompts", (), "the answers are no longer cut off"),
    Remedy("Use bf16 in place of fp16", (), "gradients no longer overflow"),
)
_ALL_FAILED = 0.99
_NOT_ROUNDED = 0.5
_LASTS = 3
_OFTEN = 0.05
"""The share of steps that is no single accident."""


def check(run: Run) -> Iterator[Finding]:
    yield from _rewards(run)
    lost = list(_losses(run)) or list(_vanished(run))
    yield from lost
    if not any(one.severity.is_alarm for one in lost):
        yield from _distance(run)


def _rewards(run: Run) -> Iterator[Finding]:
    """A reward that is no number while samples were not reported as failed."""
    reward = run.raw(metrics.REWARD_MEAN)
    start, end = _bad_stretch(reward)
    failed = run.series(metrics.FAILED_SHARE).since(reward.step(start) if len(reward) else 0)
    if start == end or (len(failed) and failed.values.max() > _ALL_FAILED):
        return
    onset, count = reward.step(start), end - start
    passed = end < len(reward) and count < _LASTS
    seen = (run.seen(f"{reward.name} is not a number", onset, steps=count),)
    yield _was_none(run, seen, onset, count) if passed else _is_none(run, seen, onset, count)


def _is_none(run: Run, seen: tuple[Evidence, ...], onset: int, count: int) -> Finding:
    return Finding(
        "reward_function_error.nan",
        Severity.CRITICAL,
        "The reward is NaN",
        f"The reward function returned NaN or infinity: the mean reward is no number in {count} "
        f"steps since step {onset}. Advantages, loss and gradients made from it are NaN too, so "
        "the model learns nothing and its weights may be lost.",
        seen,
        _finite_rewards(run, onset),
        onset,
        source="verl 0.9.1: a NaN reward ends with exit code 0",
    )


def _was_none(run: Run, seen: tuple[Evidence, ...], onset: int, count: int) -> Finding:
    steps = f"step {onset}" if count == 1 else f"{count} steps from step {onset} on"
    return Finding(
        "reward_function_error.nan",
        Severity.WARNING,
        "The reward was NaN for a moment",
        f"The reward function returned NaN or infinity: the mean reward is no number in {steps}, "
        "and is one again since. An update made from it ruins the weights unless the trainer skips "
        "it.",
        seen,
        _finite_rewards(run, onset),
        onset,
        source="verl 0.9.1: a NaN reward ends with exit code 0",
    )


def _finite_rewards(run: Run, onset: int) -> tuple[Remedy, ...]:
    return (
        Remedy(
            "Make the reward function return a finite number for every response",
            (),
            "look for a division by zero, an empty list or a logarithm of zero in it",
        ),
        *cures.own_reward(run.context),
        *cures.judge_test(run.context),
        cures.earlier_checkpoint(onset),
    )


def _losses(run: Run) -> Iterator[Finding]:
    loss = _loss(run)
    norm = run.raw("actor/grad_norm")
    start, end = _bad_stretch(loss)
    witness = loss
    if start == end:
        start, end = _bad_stretch(norm)
        witness = norm
        if start == end or end < len(norm):
            return  # The loss is sound and gradients are again: the scaler skipped a step.
    if end < len(witness) and start == 0 and len(witness) - end >= _LASTS:
        return
    if end - start < 2 and end < len(witness):
        yield _skipped(run, witness, start)
        return
    if start == 0 and witness is norm and len(loss) and not loss.values.any():
        yield _nothing_to_learn(run, norm, end)
        return
    yield _lost(run, witness, start, end)


def _loss(run: Run) -> Series:
    return run.raw(next((one for one in LOSSES if len(run.raw(one))), metrics.TRAIN_LOSS))


def _distance(run: Run) -> Iterator[Finding]:
    """A KL that is no number again and again, while others are: of single rollouts it overflows."""
    kl = run.raw("actor/kl_loss")
    bad = np.isnan(kl.values)
    if bad.sum() < max(_LASTS, _OFTEN * len(kl)) or bad.all():
        return
    onset = kl.step(int(np.argmax(bad)))
    yield Finding(
        "loss_nan.kl",
        Severity.WARNING,
        "The KL is NaN or infinite again and again",
        f"{kl.name} is no number in {int(bad.sum())} of {len(kl)} steps, first in step {onset}: "
        "log-probabilities of some tokens overflow, or those of trainer, reference and rollout "
        "engine do not fit together. Such steps may train on nothing.",
        (run.seen(f"{kl.name} is not a number", onset, steps=int(bad.sum())),),
        (
            Remedy("Compare the log-probabilities of trainer and rollout engine on one batch"),
            Remedy("Compute log-probabilities in float32, and mask the tokens of padding"),
        ),
        onset,
        confidence=0.8,
        source="classes: nan/inf in loss, gradients or log-probs",
    )


def _vanished(run: Run) -> Iterator[Finding]:
    """A training loss that is 0 from the start or at once, while nothing tells of a gradient."""
    loss, norm = run.series(metrics.TRAIN_LOSS), run.series("actor/grad_norm")
    place = lasting(loss.values == 0, _LASTS)
    if loss.name != metrics.TRAIN_LOSS or place is None:
        return
    onset, before = loss.step(place), loss.values[:place]
    if len(norm.since(onset)) or (before.size and before[-1] < _NOT_ROUNDED):
        return
    was = f"The loss was {before[-1]:.4g} and reads" if before.size else "The loss reads"
    yield Finding(
        "loss_nan.vanished",
        Severity.ERROR,
        "The loss falls to exactly 0 at once" if before.size else "The loss is exactly 0",
        f"{was} exactly 0 in all of the last {len(loss) - place} records, since step {onset}. No "
        "cross-entropy is 0: the trainer writes so when it is NaN or infinite, and when no label "
        "counts.",
        (run.seen("the loss is exactly 0", onset, steps=len(loss) - place),),
        (
            Remedy("Use bf16 in place of fp16", (), "logits no longer overflow"),
            cures.gentler(run.context),
            *WITHOUT_LABELS[:1],
        ),
        onset,
        confidence=0.8,
        source="transformers' Trainer: logging_nan_inf_filter",
    )


def _skipped(run: Run, witness: Series, place: int) -> Finding:
    step = witness.step(place)
    return Finding(
        "loss_nan.one_step",
        Severity.INFO,
        "One step had no finite loss",
        f"{witness.name} was not a number in step {step} alone; the steps after it are sound.",
        (run.seen(f"{witness.name} is not a number", step),),
        onset_step=step,
        confidence=0.9,
    )


def _lost(run: Run, witness: Series, start: int, end: int) -> Finding:
    onset = witness.step(start)
    return Finding(
        "loss_nan",
        Severity.CRITICAL,
        f"{witness.name} is NaN or infinite",
        f"{witness.name} is no number in {end - start} steps since step {onset}: numbers "
        f"overflowed, or something was divided by zero. An update made of them ruins the weights."
        f"{_before(witness.until(onset).known())}",
        (run.seen(f"{witness.name} is not a number", onset, steps=end - start),),
        (
            cures.earlier_checkpoint(onset),
            cures.gentler(run.context),
            cures.clipped(run.context),
            Remedy("Use bf16 in place of fp16, and look for empty batches at that step"),
        ),
        onset,
        source="classes: nan/inf in loss, gradients or log-probs",
    )


def _before(known: Series) -> str:
    """The level it had; its very last number may be of a step that was lost already."""
    if not len(known):
        return ""
    level, last = float(np.median(known.values[-20:])), float(known.values[-1])
    spike = f", and {last:.4g} in the step before" if abs(last - level) > 2 * abs(level) else ""
    return f" Before, it was about {level:.4g}{spike}."


def _nothing_to_learn(run: Run, norm: Series, count: int) -> Finding:
    onset = norm.step(0)
    return Finding(
        "loss_nan.no_labels",
        Severity.CRITICAL,
        f"{norm.name} is NaN, and the loss is 0 from the first step on",
        f"{norm.name} is no number and the loss reads exactly 0 in {count} steps since step "
        f"{onset}: {NO_LABELS}.",
        (run.seen(f"{norm.name} is not a number, the loss is 0", onset, steps=count),),
        WITHOUT_LABELS,
        onset,
        source="cross-entropy: the mean over no label is 0/0, which HF's Trainer logs as 0",
    )


def _bad_stretch(series: Series) -> tuple[int, int]:
    """The longest stretch without a number; a metric that never had one needs two steps."""
    if not len(series):
        return 0, 0
    start, end = longest(np.isnan(series.values))
    return (0, 0) if end - start == 1 == len(series) else (start, end)
