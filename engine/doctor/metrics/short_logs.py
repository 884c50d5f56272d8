"""Rules for whole logs of fewer than ``FEW`` records: the end of a log, or an excerpt of one.

The other rules compare a series with its own past. A few records have no past, but they can show a
NaN loss, rewards that are all equal, a gradient of exactly 0 although rewards differ, a KL of a
million, or responses that all hit the length limit. These rules compare values with absolute
limits. All records must be bad (for NaN the last one, for lengths the last two), and a finding is
at most a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from engine.doctor.metrics.rules import nan
from engine.doctor.metrics.rules.divergence import sums_kl
from engine.doctor.metrics.rules.flat_reward import equal_steps, is_distilled
from engine.doctor.metrics.run import (
    LENGTH,
    Run,
    Series,
    cut_share,
    figure,
    learning_rate,
    percent,
    prints_small_numbers,
)
from engine.doctor.metrics.series_stats import Floats
from engine.findings.finding import Evidence, Finding, Severity
from engine.findings.symptom_file import Symptoms
from engine.history import metrics

FEW = 6
_CONFIDENCE = 0.5
_ONE_RECORD = 0.4
_NO_SPREAD = 1e-4
_SPREAD = 1e-3
_KL, _FAR_KL = 20.0, 1.0
_UPDATE_KL = 1.0
"""The largest KL of one update, in nats per token; that to a reference may be larger."""
_NORM, _LOST_NORM = 1000.0, 1e6
_LOSS = 100.0
_RANDOM_NATS = 4.0
_CERTAIN_NATS = 0.01
_SETTLED = 100
"""From this step on, a policy without entropy did not start without it."""
_BEGUN = 5
"""Before this step, random text may be that of an untrained model."""
_SEVERAL = 3
_NANS = ("loss_nan", "reward_function_error.nan")
_SHORT, _SURE = 0.1, 0.05
"""Shares of the first length and of the first entropy."""
_CAP = 0.9
_OF_PAIRS = ("rewards/chosen", "rewards/margins")

SYMPTOMS = Symptoms(__file__)


def check(run: Run) -> Iterator[Finding]:
    yield from _no_reward(run)
    yield from _no_number(run)
    yield from _too_large(run)
    if run.has_rewards:
        yield from _collapsed(run)
        yield from _no_spread(run)
    yield from _no_gradient(run)


def grade_by_length(run: Run, findings: list[Finding]) -> list[Finding]:
    """Add the findings of a short log, and lower the severity of findings in it.

    In a log that does not number its steps, an error is only a warning: another training may begin
    where a level shifts.
    """
    if run.context.is_whole and 0 < run.records < FEW:
        categories = {finding.category for finding in findings if finding.severity.is_alarm}
        added = (finding for finding in check(run) if finding.category not in categories)
        certain = _is_all_nan(run)
        return [
            finding if certain and finding.id.startswith(_NANS) else _lower(run.records, finding)
            for finding in (*findings, *added)
        ]
    return [
        replace(finding, severity=Severity.WARNING)
        if run.context.is_counted and finding.severity is Severity.ERROR
        else finding
        for finding in findings
    ]


def _is_all_nan(run: Run) -> bool:
    """Return whether no record of several has a finite loss: that is no accident."""
    loss = run.raw(next((name for name in nan.LOSSES if len(run.raw(name))), metrics.TRAIN_LOSS))
    return len(loss) >= _SEVERAL and bool(np.isnan(loss.values).all())


def _lower(count: int, finding: Finding) -> Finding:
    """Turn an alert into a warning that says on how few steps it rests."""
    if not finding.severity.is_alarm:
        return finding
    return replace(
        finding,
        severity=Severity.WARNING,
        cause=f"{finding.cause} This is based on "
        f"{'one logged step' if count == 1 else f'{count} logged steps'}.",
        confidence=min(finding.confidence, _ONE_RECORD if count == 1 else _CONFIDENCE),
    )


def _no_reward(run: Run) -> Iterator[Finding]:
    reward = run.raw(metrics.REWARD_MEAN)
    if len(reward) and np.isnan(reward.values[-1]):
        onset = reward.step(-1)
        evidence = run.evidence(f"{reward.name} is not a number", onset)
        yield SYMPTOMS["reward_function_error.nan"].finding(
            run.case(onset),
            evidence,
        )


def _no_number(run: Run) -> Iterator[Finding]:
    names = [*nan.LOSSES, metrics.VALIDATION_LOSS, "actor/kl_loss", "actor/grad_norm", *_OF_PAIRS]
    last = {series.name: series for series in map(run.raw, names) if len(series)}
    nan_names = [name for name, series in last.items() if np.isnan(series.values[-1])]
    losses = {name: series.values[-1] for name, series in last.items() if name in nan.LOSSES}
    # A validation loss alone may be that of no rows.
    validated = {metrics.VALIDATION_LOSS, run.raw("actor/grad_norm").name}
    # AMP overflows beside a healthy loss; without one, it is no explanation.
    is_healthy = any(abs(loss) < _LOSS for loss in losses.values())
    is_gradient = not is_healthy and run.raw("actor/grad_norm").name in nan_names
    is_loss = not losses.keys().isdisjoint(nan_names)
    is_nan = is_loss or is_gradient or validated <= {*nan_names}
    # HF's Trainer prints 0 for the mean of losses that are NaN.
    is_filtered = bool(nan_names and losses) and not any(losses.values()) and not run.has_rewards
    if not is_nan and not is_filtered:
        return
    onset, metric_names = last[nan_names[0]].step(-1), ", ".join(nan_names)
    case = run.case(onset)
    overflow = (
        "numbers overflowed, or something was divided by zero. An update computed from them ruins "
        "the weights"
    )
    yield SYMPTOMS["loss_nan"].finding(
        case,
        run.evidence(f"not a number: {metric_names}", onset),
        remedies=None if is_nan else nan.SYMPTOMS["loss_nan.no_labels"].remedies(case),
        metric="loss" if is_loss else "gradient",
        bad=f"{metric_names} {'is' if len(nan_names) == 1 else 'are'} not a number",
        why=overflow if is_nan else f"the loss reads 0, {nan.NO_LABELS}",
    )


def _too_large(run: Run) -> Iterator[Finding]:
    norm, loss = run.series("actor/grad_norm"), _supervised_loss(run)
    for kl in _kls(run):
        limit = _UPDATE_KL if kl.name == "actor/ppo_kl" and len(kl) > 1 else _KL
        if np.all(np.abs(kl.values) > limit) and len(kl):
            yield _large(run, kl, "kl", "the policy is far from the model it started from")
            return
    if _all(norm, lambda values: values >= _NORM) and (
        len(norm) > 1 if not len(loss) else _all(loss, lambda values: np.abs(values) >= _LOSS)
    ):
        beside = f"the loss is {figure(_last(loss))}" if len(loss) else "no loss is logged"
        yield _large(run, norm, "huge", beside)
    elif len(norm) and _last(norm) >= _LOST_NORM:
        yield _large(run, norm, "huge", "no healthy update has such a gradient")


def _supervised_loss(run: Run) -> Series:
    """Return the supervised loss; a policy loss is always near 0."""
    loss = run.series(metrics.TRAIN_LOSS)
    return loss if loss.name == metrics.TRAIN_LOSS else loss.until(float("-inf"))


def _kls(run: Run) -> Iterator[Series]:
    """Yield the KLs in nats per token."""
    if not sums_kl(run):
        yield run.series("actor/kl_loss")
        yield run.series("actor/ppo_kl")


def _large(run: Run, series: Series, kind: str, beside: str) -> Finding:
    onset, last, span = series.step(0), _last(series), _span(series)
    return SYMPTOMS[f"kl_or_grad_blowup.{kind}"].finding(
        run.case(onset),
        run.evidence(f"{series.name} is {span}", onset, last=last),
        metric=series.name,
        last=figure(last),
        span=span,
        beside=beside,
    )


def _collapsed(run: Run) -> Iterator[Finding]:
    length, entropy = run.series(LENGTH), run.series("actor/entropy")
    if _fell(length, 10.0, _SHORT, 2):
        yield _fallen(run, "length", length, "responses are nearly empty")
    if _fell(entropy, 0.3, _SURE, 1):
        yield _fallen(run, "entropy", entropy, "entropy fell to nearly 0")
    certain = _all(entropy, lambda values: (values > 0) & (values <= _CERTAIN_NATS))
    if certain and entropy.step(0) >= _SETTLED:
        yield _fallen(run, "entropy", entropy, "it is certain of every token")
    is_random = _all(entropy, lambda values: values >= _RANDOM_NATS)
    earns = _all(run.series(metrics.REWARD_MEAN), lambda values: values > 0) and not _equal(run)
    useless = len(entropy) > 0 and entropy.step(0) >= _BEGUN and _is_capped(run) and not earns
    # The policy is far from its starting model.
    has_drifted = any(_all(kl, lambda values: values >= _FAR_KL) for kl in _kls(run))
    if is_random and (useless or has_drifted):
        yield _fallen(run, "entropy_explosion", entropy, "it writes nearly random text")


def _fell(series: Series, least: float, share: float, records: int) -> bool:
    """Return whether the last records fell to that share of the first one."""
    if len(series) <= records or series.values[0] < least:
        return False
    return 0 <= float(series.values[-records:].max()) <= share * float(series.values[0])


def _fallen(run: Run, kind: str, series: Series, sign: str) -> Finding:
    onset = series.step(0 if len(series) < 3 or kind != "length" else 1)
    span = _span(series)
    return SYMPTOMS[f"collapse_entropy_or_length.{kind}"].finding(
        run.case(onset),
        run.evidence(f"{series.name} is {span}", onset, last=_last(series)),
        *_context(run),
        sign=sign,
        metric=series.name,
        span=span,
    )


def _no_spread(run: Run) -> Iterator[Finding]:
    reward = run.series(metrics.REWARD_MEAN)
    all_zero = _all(reward, lambda values: values == 0)
    # A critic's advantages are not 0 even if rewards are equal.
    has_critic = _all(run.series("critic/advantages/max"), lambda values: values > _SPREAD)
    if has_critic or is_distilled(run):
        return
    no_gradient = _all(run.series("actor/grad_norm"), lambda values: values == 0)
    is_idle = all_zero and len(reward) > 1 and (_is_capped(run) or no_gradient)
    if not is_idle and not _equal(run):
        return
    names = metrics.ZERO_STD_SHARE, metrics.REWARD_STD, metrics.REWARD_MEAN, metrics.REWARD_MAX
    onset = run.first(*names).step(0)
    yield SYMPTOMS[f"reward_zero_or_flat.{'zero' if all_zero else 'equal'}"].finding(
        run.case(onset),
        run.evidence("rewards have no variance", onset),
        *_context(run),
        level=f" (mean reward {_span(reward)})" if len(reward) else "",
    )


def _equal(run: Run) -> bool:
    share, std = run.series(metrics.ZERO_STD_SHARE), run.series(metrics.REWARD_STD)
    if len(share):
        return _all(share, lambda values: values > 0.999)
    if len(std):
        size = float(np.abs(run.series(metrics.REWARD_MEAN).values).max(initial=1.0))
        return _all(std, lambda values: values < _NO_SPREAD * size)
    return any(bool(np.all(same)) for _, same in equal_steps(run))


def _no_gradient(run: Run) -> Iterator[Finding]:
    norm, rate = run.series("actor/grad_norm"), learning_rate(run)
    if not _all(norm, lambda values: values == 0):
        return
    onset, count = norm.step(0), len(norm)
    if _all(rate, lambda values: values == 0):
        if count >= _SEVERAL and prints_small_numbers(run):
            evidence = run.evidence("learning rate and gradient norm are 0", onset, steps=count)
            yield SYMPTOMS["loss_flat_no_learning.not_begun"].finding(
                run.case(onset), evidence, count=count
            )
        return
    case = _without_gradient(run)
    if case is not None and prints_small_numbers(run):
        kind, reason = case
        evidence = run.evidence("gradient norm is exactly 0", onset, steps=count)
        yield SYMPTOMS[f"loss_flat_no_learning.{kind}"].finding(
            run.case(onset), evidence, reason=reason
        )


def _without_gradient(run: Run) -> tuple[str, str] | None:
    """Return the kind of finding, and why there should be a gradient."""
    std, share = run.series(metrics.REWARD_STD), run.series(metrics.ZERO_STD_SHARE)
    if len(run.series(metrics.REWARD_MEAN)):
        differ = _all(std, lambda values: values >= _SPREAD)
        if differ and not (len(share) and share.values.max() > 0.999):
            return "no_gradient", f"the rewards of a group differ (std {_span(std)})"
        return None
    loss, margins = _supervised_loss(run), run.series("rewards/margins")
    if _all(margins, lambda values: values == 0):
        chance = _all(loss, lambda values: np.abs(values - math.log(2)) < 1e-3)
        return ("still", f"the loss is {_span(loss)}, that of margins of 0") if chance else None
    if not len(loss) or float(np.ptp(loss.values)) > 1e-4 * max(abs(_last(loss)), 1e-3):
        return None
    # A single loss other than 0 may be that of a skipped step.
    reason = "the loss is exactly 0" if not loss.values.any() else f"the loss is {_span(loss)}"
    return ("still", reason) if len(loss) > 1 or not loss.values.any() else None


def _is_capped(run: Run) -> bool:
    return _all(cut_share(run), lambda values: values >= _CAP)


def _context(run: Run) -> Iterator[Evidence]:
    """Yield other facts about those records."""
    capped, norm = cut_share(run), run.series("actor/grad_norm")
    if _is_capped(run):
        share = percent(float(capped.values.min()))
        yield run.evidence(f"at least {share} of responses hit the length limit", capped.step(0))
    if len(norm):
        yield run.evidence(f"gradient norm {_span(norm)}", norm.step(0))


def _all(series: Series, condition: Callable[[Floats], np.ndarray]) -> bool:
    """Return whether there are values and all of them meet the condition."""
    return len(series) > 0 and bool(np.all(condition(series.values)))


def _last(series: Series) -> float:
    return float(series.values[-1])


def _span(series: Series) -> str:
    """Format the first and the last value, or one of them if they read alike."""
    first, last = figure(float(series.values[0])), figure(_last(series))
    return last if first == last else f"{first} at first and {last} at the end"
