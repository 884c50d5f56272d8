"""Rules for NaN and infinite rewards, losses, gradients and KL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series
from engine.doctor.metrics.series_stats import longest_stretch, tail_start
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.symptom import Case, Rule, Symptom
from engine.history import metrics

LOSSES = ("actor/pg_loss", "actor/loss", metrics.TRAIN_LOSS, "critic/vf_loss")
NO_LABELS = (
    "the loss is a mean over no label. Every label is masked (-100) if the marker that starts the "
    "answer is not found in a row, or if prompts fill the whole length and the answer is cut off. "
    "An overflow in fp16 looks the same"
)
OVERFLOW = Remedy("Use bf16 instead of fp16, and check that step for empty batches")
_COUNT_LABELS = Remedy(
    "Count the labels of one batch that are not -100", (), "with 0, nothing is learned"
)
_ALL_FAILED = 0.99
_NOT_ROUNDED = 0.5
_LASTS = 3
_OFTEN = 0.05
"""From this share of steps on, NaN values are no accident."""


def finite_reward(case: Case) -> Iterator[Remedy]:
    yield Remedy(
        "Make the reward function return a finite number for every response",
        (),
        "look for a division by zero, an empty list or a logarithm of zero",
    )
    yield from fixes.rubric_reward(case.context)
    yield from fixes.judge_test(case.context)
    yield from fixes.earlier_checkpoint(case)


def label_remedies(_: Case) -> tuple[Remedy, ...]:
    return (
        _COUNT_LABELS,
        Remedy("Copy the marker of the answer from the chat template's output, token by token"),
        Remedy("Allow longer rows, or shorten the prompts", (), "answers are no longer cut off"),
        Remedy("Use bf16 instead of fp16", (), "gradients no longer overflow"),
    )


def overflow_remedies(case: Case) -> tuple[Remedy, ...]:
    return (
        *fixes.earlier_checkpoint(case),
        fixes.lower_rate(case.context),
        fixes.clip_gradients(case.context),
        OVERFLOW,
    )


NAN_REWARD = Symptom(
    id="reward_function_error.nan",
    severity=Severity.CRITICAL,
    title="Reward is NaN",
    cause="The reward function returned NaN or infinity: the mean reward is NaN or infinite in "
    "{count} steps since step {onset}. Advantages, loss and gradients computed from it are NaN "
    "too, so the model learns nothing and its weights may be lost.",
    shape="a mean reward that is null, NaN or infinite in at least 3 steps, or to the end",
    ruled_out="a step in which nearly all samples failed; a metric with a single value",
    remedies=finite_reward,
    source="verl 0.9.1: a run with a NaN reward ends with exit code 0",
)
NAN_REWARD_FOR_A_MOMENT = Symptom(
    id="reward_function_error.nan",
    severity=Severity.WARNING,
    title="Reward was briefly NaN",
    cause="The reward function returned NaN or infinity: the mean reward is NaN or infinite in "
    "{steps}, and finite again since. An update computed from it ruins the weights unless the "
    "trainer skips it.",
    shape="a mean reward that is null, NaN or infinite in one or two steps, and finite after them",
    remedies=finite_reward,
    source="verl 0.9.1: a run with a NaN reward ends with exit code 0",
)
NAN_KL = Symptom(
    id="loss_nan.kl",
    severity=Severity.WARNING,
    title="KL is repeatedly NaN or infinite",
    cause="{metric} is NaN or infinite in {count} of {steps} steps, first in step {onset}: "
    "log-probabilities of some tokens overflow, or those of trainer, reference and rollout engine "
    "do not match. Such steps may train on nothing.",
    shape="a KL that is NaN or infinite in one of twenty steps (at least 3), else finite",
    ruled_out="runs whose loss is NaN as well",
    remedies=lambda _: (
        Remedy("Compare the log-probabilities of trainer and rollout engine on one batch"),
        Remedy("Compute log-probabilities in float32, and mask padding tokens"),
    ),
    confidence=0.8,
    source="failure classes: NaN or infinity in loss, gradients or log-probabilities",
)
VANISHED = Symptom(
    id="loss_nan.vanished",
    title="Loss {verb} exactly 0",
    cause="{before} exactly 0 in all of the last {count} records, since step {onset}. A "
    "cross-entropy is never exactly 0; the trainer logs 0 when the loss is NaN or infinite, or "
    "when every label is masked.",
    shape="a training loss of exactly 0 from the first record on, or from one record to the next, "
    "for at least 3 records, without a gradient norm",
    ruled_out="a loss that was small before: it was rounded",
    remedies=lambda case: (
        Remedy("Use bf16 instead of fp16", (), "logits no longer overflow"),
        fixes.lower_rate(case.context),
        _COUNT_LABELS,
    ),
    confidence=0.8,
    source="transformers' Trainer: logging_nan_inf_filter",
)
SKIPPED_STEP = Symptom(
    id="loss_nan.one_step",
    severity=Severity.INFO,
    title="One step had no finite loss",
    cause="{metric} was NaN or infinite in step {onset} only; the following steps are fine.",
    shape="a single NaN or infinite loss or gradient norm, with finite values after it",
    confidence=0.9,
    source="mixed precision: the loss scaler skips such a step",
)
NAN_LOSS = Symptom(
    id="loss_nan",
    severity=Severity.CRITICAL,
    title="{metric} is NaN or infinite",
    cause="{metric} is NaN or infinite in {count} steps since step {onset}: numbers overflowed, or "
    "something was divided by zero. An update computed from them ruins the weights.{before}",
    shape="a loss or gradient norm that is null, NaN or infinite (readers make all three NaN)",
    ruled_out="a gradient norm that overflows in the first steps only (the AMP loss scaler "
    "searches for its scale), a loss without values at first (no update was made yet: "
    "NaN weights do not recover), a metric that never has a value while the loss does (it is not "
    "logged)",
    remedies=overflow_remedies,
    source="failure classes: NaN or infinity in loss, gradients or log-probabilities",
)
NO_LABEL = Symptom(
    id="loss_nan.no_labels",
    severity=Severity.CRITICAL,
    title="{metric} is NaN, and the loss is 0 from the first step",
    cause="{metric} is NaN or infinite and the loss is exactly 0 in {count} steps since step "
    "{onset}: {why}.",
    shape="a gradient norm that is NaN or infinite from the first step while the loss is exactly 0",
    remedies=label_remedies,
    source="cross-entropy: a mean over no label is 0/0, which HF's Trainer logs as 0",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _nan_reward(run)
    findings = list(_nan_loss(run)) or list(_zero_loss(run))
    yield from findings
    if not any(finding.severity.is_alarm for finding in findings):
        yield from _nan_kl(run)


def _nan_reward(run: Run) -> Iterator[Finding]:
    """Find a NaN reward, unless nearly all samples of these steps were reported as failed."""
    reward = run.raw(metrics.REWARD_MEAN)
    start, end = _nan_stretch(reward)
    failed = run.series(metrics.FAILED_SHARE).since(reward.step(start) if len(reward) else 0)
    if start == end or (len(failed) and failed.values.max() > _ALL_FAILED):
        return
    onset, count = reward.step(start), end - start
    evidence = run.evidence(f"{reward.name} is not a number", onset, steps=count)
    if end < len(reward) and count < _LASTS:
        steps = f"step {onset}" if count == 1 else f"{count} steps from step {onset} on"
        yield NAN_REWARD_FOR_A_MOMENT.finding(run.case(onset), evidence, steps=steps)
    else:
        yield NAN_REWARD.finding(run.case(onset), evidence, count=count, onset=onset)


def _nan_loss(run: Run) -> Iterator[Finding]:
    loss = run.raw(next((name for name in LOSSES if len(run.raw(name))), metrics.TRAIN_LOSS))
    norm = run.raw("actor/grad_norm")
    bad, (start, end) = loss, _nan_stretch(loss)
    if start == end:
        bad, (start, end) = norm, _nan_stretch(norm)
        if start == end or end < len(norm):
            return  # Loss and later gradients are finite: the loss scaler skipped a step.
    if end < len(bad) and start == 0 and len(bad) - end >= _LASTS:
        return
    onset, count, metric = bad.step(start), end - start, bad.name
    case, text = run.case(onset), f"{metric} is not a number"
    if count < 2 and end < len(bad):
        yield SKIPPED_STEP.finding(case, run.evidence(text, onset), metric=metric, onset=onset)
    elif bad is norm and start == 0 and not run.has_rewards and len(loss) and not loss.values.any():
        evidence = run.evidence(f"{text}, the loss is 0", onset, steps=count)
        yield NO_LABEL.finding(
            case, evidence, metric=metric, count=count, onset=onset, why=NO_LABELS
        )
    else:
        evidence = run.evidence(text, onset, steps=count)
        before = _format_level(bad.until(onset).finite())
        yield NAN_LOSS.finding(
            case, evidence, metric=metric, count=count, onset=onset, before=before
        )


def _format_level(before: Series) -> str:
    """Format the level before the NaN values; the last number may already be of a bad step."""
    if not len(before):
        return ""
    level, last = float(np.median(before.values[-20:])), float(before.values[-1])
    spike = f", and {last:.4g} in the step before" if abs(last - level) > 2 * abs(level) else ""
    return f" Before, it was about {level:.4g}{spike}."


def _zero_loss(run: Run) -> Iterator[Finding]:
    """Find a loss of 0 from the start or from one record to the next, without gradients."""
    loss, norm = run.series(metrics.TRAIN_LOSS), run.series("actor/grad_norm")
    index = tail_start(loss.values == 0, _LASTS)
    if loss.name != metrics.TRAIN_LOSS or index is None:
        return
    onset, before = loss.step(index), loss.values[:index]
    if len(norm.since(onset)) or (before.size and before[-1] < _NOT_ROUNDED):
        return
    count = len(loss) - index
    yield VANISHED.finding(
        run.case(onset),
        run.evidence("the loss is exactly 0", onset, steps=count),
        verb="falls at once to" if before.size else "is",
        before=f"The loss was {before[-1]:.4g} and is" if before.size else "The loss is",
        count=count,
        onset=onset,
    )


def _nan_kl(run: Run) -> Iterator[Finding]:
    """Find a KL that is NaN in some steps only: it overflows for single rollouts."""
    kl = run.raw("actor/kl_loss")
    bad = np.isnan(kl.values)
    count = int(bad.sum())
    if count < max(_LASTS, _OFTEN * len(kl)) or bad.all():
        return
    onset = kl.step(int(np.argmax(bad)))
    yield NAN_KL.finding(
        run.case(onset),
        run.evidence(f"{kl.name} is not a number", onset, steps=count),
        metric=kl.name,
        count=count,
        steps=len(kl),
        onset=onset,
    )


def _nan_stretch(series: Series) -> tuple[int, int]:
    """Return start and end of the longest NaN stretch; a metric with no number needs two steps."""
    if not len(series):
        return 0, 0
    start, end = longest_stretch(np.isnan(series.values))
    return (0, 0) if end - start == 1 == len(series) else (start, end)


RULE = Rule(check)
