"""What a handful of records shows: the end of a log, or what somebody cut out of one.

The other rules ask since when a number is otherwise. A few records have no "before", and yet a
person who reads them names a loss of NaN, rewards that are all equal, a gradient of exactly 0
beside rewards that differ, a KL of a million, answers that all run to the cap.

Shape: fewer than ``FEW`` records, all of which are sick (of NaN the last one, of lengths the last
two). Ruled out: a gradient norm that overflows beside a sound loss (AMP looks for its scale), the
first step of DPO (a loss of ln 2 with a gradient), a KL or a policy loss of 0 (on-policy), a
gradient of 0 at a learning rate of 0 (information from three records on), logs of three decimals,
sums over a response (``objective/kl``). It is asked only of whole logs that end there, and what it
finds is a warning.
Source: classes; excerpts in public reports, which mostly hold one to three records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from engine.doctor.metrics.rules.collapse import LENGTH, cut_share
from engine.doctor.metrics.rules.divergence import sums_kl
from engine.doctor.metrics.rules.flat_reward import one_valued
from engine.doctor.metrics.rules.nan import LOSSES, NO_LABELS, WITHOUT_LABELS
from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.doctor.metrics.series_stats import Floats, rounded
from engine.doctor.metrics.teacher import is_distilled
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

FEW = 6
_CONFIDENCE = 0.5
_ONE_RECORD = 0.4
_NO_SPREAD = 1e-4
_SPREAD = 1e-3
_KL, _FAR_KL = 20.0, 1.0
_UPDATE_KL = 1.0
"""The most that one update goes, in nats a token; distances to a reference may be large."""
_NORM, _LOST_NORM = 1000.0, 1e6
_LOSS = 100.0
_RANDOM_NATS = 4.0
_CERTAIN_NATS = 0.01
_SETTLED = 100
"""From this step on a policy that is certain of all it says has not begun so."""
_BEGUN = 5
"""Before this step random text is that of a model which nobody trained yet."""
_SEVERAL = 3
_SHORT, _SURE = 0.1, 0.05
"""Shares of the first length and of the first entropy."""
_CAP = 0.9
_OF_PAIRS = ("rewards/chosen", "rewards/margins")


def check(run: Run) -> Iterator[Finding]:
    yield from _no_reward(run)
    yield from _no_number(run)
    yield from _too_large(run)
    yield from _collapsed(run)
    yield from _no_spread(run)
    yield from _still(run)


def with_few(run: Run, found: list[Finding]) -> list[Finding]:
    """What the other rules found, and of a log of few records what these do, with due caution."""
    if run.context.is_whole and 0 < run.records < FEW:
        known = {one.family for one in found if one.severity.is_alarm}
        more = (one for one in check(run) if one.family not in known)
        return list(_cautious(run.records, [*found, *more]))
    return [_doubted(one) for one in found] if run.context.is_counted else found


def _doubted(one: Finding) -> Finding:
    """A level that shifts where another training begins is no fault."""
    return replace(one, severity=Severity.WARNING) if one.severity is Severity.ERROR else one


def _cautious(count: int, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings as warnings that say how little they rest on."""
    text = "one logged step" if count == 1 else f"{count} logged steps"
    at_most = _ONE_RECORD if count == 1 else _CONFIDENCE
    for one in findings:
        if not one.severity.is_alarm:
            yield one
            continue
        yield replace(
            one,
            severity=Severity.WARNING,
            cause=f"{one.cause} This rests on {text}.",
            confidence=min(one.confidence, at_most),
        )


def _no_reward(run: Run) -> Iterator[Finding]:
    reward = run.raw(metrics.REWARD_MEAN)
    if not len(reward) or not np.isnan(reward.values[-1]):
        return
    step = reward.step(-1)
    yield Finding(
        "reward_function_error.nan",
        Severity.WARNING,
        "The reward is NaN",
        f"In step {step} the mean reward is not a number: the reward function divides by zero, "
        "takes a mean of nothing or a logarithm of zero.",
        (run.seen(f"{reward.name} is not a number", step),),
        (Remedy("Make the reward function return a finite number for every response"),),
        step,
        source="verl 0.9.1: a NaN reward ends with exit code 0",
    )


def _no_number(run: Run) -> Iterator[Finding]:
    names = [*LOSSES, metrics.VALIDATION_LOSS, "actor/kl_loss", "actor/grad_norm", *_OF_PAIRS]
    last = {one.name: one for one in map(run.raw, names) if len(one)}
    bad = [name for name, series in last.items() if np.isnan(series.values[-1])]
    losses = {name: series.values[-1] for name, series in last.items() if name in LOSSES}
    # A validation loss alone may be that of no rows.
    validated = {metrics.VALIDATION_LOSS, run.raw("actor/grad_norm").name}
    # AMP overflows beside a sound loss: where none is sound nothing speaks for it.
    is_sound = any(abs(loss) < _LOSS for loss in losses.values())
    alone = not is_sound and run.raw("actor/grad_norm").name in bad
    of_loss = not losses.keys().isdisjoint(bad)
    lost = of_loss or alone or validated <= {*bad}
    # HF's Trainer prints 0 for the mean of losses that are NaN.
    is_filtered = bool(bad and losses) and not any(losses.values())
    if not lost and not is_filtered:
        return
    step = last[bad[0]].step(-1)
    said, why, remedies = ", ".join(bad), f"the loss reads 0, {NO_LABELS}", WITHOUT_LABELS
    if lost:
        why = (
            "numbers overflowed, or something was divided by zero. An update made of them ruins "
            "the weights"
        )
        remedies = (
            cures.earlier_checkpoint(step),
            cures.gentler(run.context),
            cures.clipped(run.context),
            Remedy("Use bf16 in place of fp16, and look for empty batches at that step"),
        )
    yield Finding(
        "loss_nan",
        Severity.WARNING,
        "The loss is NaN or infinite" if of_loss else "The gradient is NaN or infinite",
        f"In step {step} {said} {'is' if len(bad) == 1 else 'are'} not a number: {why}.",
        (run.seen(f"not a number: {said}", step),),
        remedies,
        step,
        source="classes: nan/inf in loss, gradients or log-probs",
    )


def _too_large(run: Run) -> Iterator[Finding]:
    norm, loss = run.series("actor/grad_norm"), _own_loss(run)
    kl = next((one for one in _kls(run) if _is_far_off(one)), None)
    if kl is not None:
        yield _large(run, kl, "kl", "the policy is far from the model it started from")
    elif _all(norm, lambda values: values >= _NORM) and (
        len(norm) > 1 if not len(loss) else _all(loss, lambda values: np.abs(values) >= _LOSS)
    ):
        beside = f"the loss is {figure(_last(loss))}" if len(loss) else "no loss is logged"
        yield _large(run, norm, "huge", beside)
    elif len(norm) and _last(norm) >= _LOST_NORM:
        yield _large(run, norm, "huge", "no sound update has such a gradient")


def _is_far_off(kl: Series) -> bool:
    limit = _UPDATE_KL if kl.name == "actor/ppo_kl" and len(kl) > 1 else _KL
    return _all(kl, lambda values: np.abs(values) > limit)


def _own_loss(run: Run) -> Series:
    """A loss that has a level: a policy loss is near 0 and says nothing."""
    loss = run.series(metrics.TRAIN_LOSS)
    return loss if loss.name == metrics.TRAIN_LOSS else loss.until(float("-inf"))


def _kls(run: Run) -> Iterator[Series]:
    """Those in nats a token."""
    if sums_kl(run):
        return
    for name in ("actor/kl_loss", "actor/ppo_kl"):
        yield run.series(name)


def _large(run: Run, series: Series, kind: Literal["kl", "huge"], beside: str) -> Finding:
    step = series.step(0)
    return Finding(
        f"kl_or_grad_blowup.{kind}",
        Severity.WARNING,
        f"{series.name} of {figure(_last(series))} is far too large",
        f"{series.name} is {_span(series)}, and {beside}: updates are too large, a sum was not "
        "averaged, or the weights were broken before.",
        (run.seen(f"{series.name} is {_span(series)}", step, last=_last(series)),),
        (cures.gentler(run.context), cures.clipped(run.context)),
        step,
        source="classes: kl above 1 and growing; grad_norm in the hundreds",
    )


def _collapsed(run: Run) -> Iterator[Finding]:
    length, entropy = run.series(LENGTH), run.series("actor/entropy")
    if _fell(length, 10.0, _SHORT, 2):
        yield _fallen(run, "length", length, "hardly any token is written")
    if _fell(entropy, 0.3, _SURE, 1):
        yield _fallen(run, "entropy", entropy, "entropy fell to nearly nothing")
    certain = _all(entropy, lambda values: (values > 0) & (values <= _CERTAIN_NATS))
    if certain and entropy.step(0) >= _SETTLED:
        yield _fallen(run, "entropy", entropy, "it is certain of every token")
    is_random = _all(entropy, lambda values: values >= _RANDOM_NATS)
    earns = _all(run.series(metrics.REWARD_MEAN), lambda values: values > 0) and not _equal(run)
    useless = len(entropy) > 0 and entropy.step(0) >= _BEGUN and _is_capped(run) and not earns
    if is_random and (useless or _is_far(run)):
        yield _fallen(run, "entropy_explosion", entropy, "it writes nearly random text")


def _is_far(run: Run) -> bool:
    """Whether what is random has left the model that it started from."""
    return any(_all(kl, lambda values: values >= _FAR_KL) for kl in _kls(run))


def _fell(series: Series, least: float, share: float, records: int) -> bool:
    """Whether the last records are down to a share of what the first one was."""
    if len(series) <= records or series.values[0] < least:
        return False
    return 0 <= float(series.values[-records:].max()) <= share * float(series.values[0])


def _fallen(
    run: Run, kind: Literal["length", "entropy", "entropy_explosion"], series: Series, sign: str
) -> Finding:
    step = series.step(0 if len(series) < 3 or kind != "length" else 1)
    return Finding(
        f"collapse_entropy_or_length.{kind}",
        Severity.WARNING,
        f"The policy has collapsed: {sign}",
        f"{series.name} is {_span(series)}: what the model writes can earn nothing new, so it "
        "cannot recover by itself.",
        (run.seen(f"{series.name} is {_span(series)}", step, last=_last(series)), *_company(run)),
        (
            cures.earlier_checkpoint(step),
            cures.gentler(run.context),
            cures.held_near_reference(run.context),
        ),
        step,
        source="classes: entropy to 0 or far up; length to 1 within few steps",
    )


def _no_spread(run: Run) -> Iterator[Finding]:
    reward = run.series(metrics.REWARD_MEAN)
    nothing = _all(reward, lambda values: values == 0)
    if _has_critic(run) or is_distilled(run):
        return
    if not _equal(run) and not (nothing and len(reward) > 1 and _is_idle(run)):
        return
    seen = metrics.ZERO_STD_SHARE, metrics.REWARD_STD, metrics.REWARD_MEAN, metrics.REWARD_MAX
    step = run.first(*seen).step(0)
    level = f" (mean reward {_span(reward)})" if len(reward) else ""
    yield Finding(
        "reward_zero_or_flat.zero" if nothing else "reward_zero_or_flat.equal",
        Severity.WARNING,
        "Every reward is 0" if nothing else "The rewards of a group are all equal",
        f"The rollouts of a group get the same reward{level}: every advantage is 0 and nothing is "
        "learned.",
        (run.seen("rewards have no spread", step), *_company(run)),
        (
            Remedy("Check the answer parser and the gold of three rollouts by hand first"),
            cures.longer(run.context),
            Remedy("Look at three rollouts of one group: do the texts differ, and their scores?"),
        ),
        step,
        not_checked=("why the rewards are equal: the numbers alone do not show it, rollouts do",),
        source="GRPO: advantage = reward - group mean",
    )


def _has_critic(run: Run) -> bool:
    """Advantages are told from what a critic expects: rewards without spread teach it, too."""
    top = run.series("critic/advantages/max")
    return _all(top, lambda values: values > _SPREAD)


def _equal(run: Run) -> bool:
    share, std = run.series(metrics.ZERO_STD_SHARE), run.series(metrics.REWARD_STD)
    if len(share):
        return _all(share, lambda values: values > 0.999)
    if len(std):
        size = float(np.abs(run.series(metrics.REWARD_MEAN).values).max(initial=1.0))
        return _all(std, lambda values: values < _NO_SPREAD * size)
    return any(bool(np.all(same)) for _, same in one_valued(run))


def _still(run: Run) -> Iterator[Finding]:
    norm, rate = run.series("actor/grad_norm"), run.first("actor/lr", "train/lr")
    if not _all(norm, lambda values: values == 0):
        return
    if _all(rate, lambda values: values == 0):
        yield from _not_begun(run, norm)
        return
    case = _without_gradient(run)
    if case is None or _is_rounded(run):
        return
    kind: Literal["no_gradient", "still"] = case[0]
    yield Finding(
        f"loss_flat_no_learning.{kind}",
        Severity.WARNING,
        "The gradient norm is exactly 0",
        f"The gradient norm is exactly 0 although {case[1]}: no parameter that is trained takes "
        "part in the loss.",
        (run.seen("gradient norm is exactly 0", norm.step(0), steps=len(norm)),),
        (
            Remedy("Check which parameters can train: adapter attached, nothing frozen"),
            Remedy("Check the versions of the trainer and of what shards the model together"),
        ),
        norm.step(0),
        source="classes: loss constant with gradient 0",
    )


def _not_begun(run: Run, norm: Series) -> Iterator[Finding]:
    """Healthy runs begin so, too, but for a step or a few."""
    if len(norm) < _SEVERAL or _is_rounded(run):
        return
    yield Finding(
        "loss_flat_no_learning.not_begun",
        Severity.INFO,
        "No update has been made yet",
        f"Learning rate and gradient norm are exactly 0 in all {len(norm)} logged steps. In fp16 "
        "the loss scaler skips the first steps until it has found its scale, and a schedule "
        "begins at 0; if it lasts, nothing is trained.",
        (run.seen("learning rate and gradient norm are 0", norm.step(0), steps=len(norm)),),
        (Remedy("If it goes on, train in bf16, and check the learning rate and what can train"),),
        norm.step(0),
        source="DeepSpeed: a skipped step has a gradient norm of 0 and moves no schedule",
    )


def _without_gradient(run: Run) -> tuple[Literal["no_gradient", "still"], str] | None:
    """The kind of finding, and what should have given a gradient."""
    std, share = run.series(metrics.REWARD_STD), run.series(metrics.ZERO_STD_SHARE)
    if len(run.series(metrics.REWARD_MEAN)):
        differ = _all(std, lambda values: values >= _SPREAD)
        if differ and not (len(share) and share.values.max() > 0.999):
            return "no_gradient", f"the rewards of a group differ (std {_span(std)})"
        return None
    loss, margins = _own_loss(run), run.series("rewards/margins")
    if _all(margins, lambda values: values == 0):
        chance = _all(loss, lambda values: np.abs(values - math.log(2)) < 1e-3)
        return ("still", f"the loss is {_span(loss)}, that of margins of 0") if chance else None
    if not len(loss) or float(np.ptp(loss.values)) > 1e-4 * max(abs(_last(loss)), 1e-3):
        return None
    # One loss that is not 0 may be of a step that was skipped.
    said = "the loss is exactly 0" if not loss.values.any() else f"the loss is {_span(loss)}"
    return ("still", said) if len(loss) > 1 or not loss.values.any() else None


def _is_rounded(run: Run) -> bool:
    """Whether no number of the log has more than three decimals: 0.000 may then be 0.0004."""
    every = [run.series(name).values for name in run.columns.names]
    return rounded(np.concatenate([*every, np.empty(0)]))


def _is_idle(run: Run) -> bool:
    return _is_capped(run) or _all(run.series("actor/grad_norm"), lambda values: values == 0)


def _is_capped(run: Run) -> bool:
    return _all(cut_share(run), lambda values: values >= _CAP)


def _company(run: Run) -> Iterator[Evidence]:
    """What else those records say, as numbers and not as a verdict."""
    capped, norm = cut_share(run), run.series("actor/grad_norm")
    if _is_capped(run):
        share = percent(float(capped.values.min()))
        yield run.seen(f"{share} of the responses and more are cut at the cap", capped.step(0))
    if len(norm):
        yield run.seen(f"gradient norm {_span(norm)}", norm.step(0))


def _all(series: Series, sick: Callable[[Floats], np.ndarray]) -> bool:
    """Whether there are records with it and all of them are sick."""
    return len(series) > 0 and bool(np.all(sick(series.values)))


def _last(series: Series) -> float:
    return float(series.values[-1])


def _span(series: Series) -> str:
    """The first and the last value, once where they read alike."""
    first, last = figure(float(series.values[0])), figure(_last(series))
    return last if first == last else f"{first} at first and {last} at the end"
