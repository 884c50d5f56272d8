"""Rules for rewards without a learning signal: all rollouts of a group get the same reward.

GRPO's advantage is a rollout's reward minus its group's mean: zero-std groups train nothing, and
their generation and judging are wasted. All right and all wrong need opposite fixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from engine.base.quantities import format_count
from engine.doctor.metrics.logged_run import (
    LENGTH,
    LoggedRun,
    Series,
    cut_evidence,
    figure,
    percent,
)
from engine.doctor.metrics.series_stats import Mask, late_level, tail_start
from engine.run import fixes
from engine.run.finding import Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_STEPS = 3
_ZERO_STEPS = 10
_CHANCE = 1e-4
_ADVANTAGE = "critic/advantages/max"
_MANY = 0.8
_MANY_STEPS = 10
_NO_SPREAD = 1e-4
_SATURATED = 0.9
_LOW = 0.2
_FLOOR, _FLOOR_STEPS = 0.95, 20
_DONE_STEPS = 20
_DONE_SHARE = 0.25
"""A run that has learned its task may end with so many all-right steps."""
_LAMBDA_DEFENSE = 0.3
"""The default of ``reward_config.lambda_defense``."""
_ROUNDING = 1e-5
_COMPONENT_STEPS = 8
_COMPONENT = re.compile(r"rewards?/(?P<name>[^/]+)(?:/mean)?")
_NO_COMPONENTS = frozenset(
    {
        *("chosen", "rejected", "margins", "accuracies", "mean", "std", "min", "max"),
        *("errors", "timeouts", "blocked", "zero_std_share", "failed_share"),
    }
)
_LOST, _LOST_RISE = 0.02, 0.1
_PENALTY = re.compile(
    r"penal|repet|duplic|n_?gram|toxic|harm|unsafe|profan|cost|violat|over_?long|too_long|truncat"
    r"|mixing|mixed|switching|cheat|hack|refus|halluc",
    re.IGNORECASE,
)
_TEACHER = re.compile(r"distill|teacher", re.IGNORECASE)
_KLS = ("actor/kl_loss", "actor/reverse_kl")
_FAR = 0.2

KINDS = FindingKinds(__file__)
_JUDGE_GIVES_NOTHING = (
    " With GRubrics' weights, the reward is -0.3 if all scores of a judge are 0: no alignment, and "
    "the penalty for scores without variance."
)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _components(run)
    advantages = run.series(_ADVANTAGE).values
    # A critic's advantages are not 0 even if rewards are equal.
    has_critic = run.is_short and advantages.size > 0 and bool(np.all(advantages > 1e-3))
    if not run.has_rewards or _is_distilled(run) or has_critic:
        return
    onset = zero_std_onset(run)
    if onset is not None:
        yield _zero_std(run, onset)
        return
    yield from _always_zero(run)
    yield from _mostly_zero_std(run)
    yield from _at_floor(run)
    yield from _saturated(run)


def _is_distilled(run: LoggedRun) -> bool:
    """Return whether a run learns from a teacher model, so that zero-std groups waste nothing.

    Its gradients are never 0, and it logs a series named after a teacher, or rewards of exactly 0
    and a KL that falls from a level at which the distance to the starting model does not begin.
    """
    norm = run.series("actor/grad_norm")
    if not len(norm) or not norm.values.all():
        return False
    if any(_TEACHER.search(name) and len(run.named(name)) for name in run.columns.names):
        return True
    kls = (run.named(name) for name in _KLS)
    return not run.series(metrics.REWARD_MEAN).values.any() and any(
        len(kl) > 1 and kl.values[0] > max(_FAR, late_level(kl.values)) for kl in kls
    )


def zero_std_onset(run: LoggedRun) -> int | None:
    """Return the step since which all groups are zero-std."""
    share, std = run.series(metrics.ZERO_STD_SHARE), run.series(metrics.REWARD_STD)
    if len(share):
        return _find_onset(run, share, share.values > 0.999)
    if len(std):
        scale = max(1.0, float(np.abs(run.series(metrics.REWARD_MEAN).values).max(initial=0.0)))
        return _find_onset(run, std, std.values < _NO_SPREAD * scale)
    onsets = [_find_onset(run, series, equal) for series, equal in _equal_steps(run)]
    return next((onset for onset in onsets if onset is not None), None)


def _equal_steps(run: LoggedRun) -> Iterator[tuple[Series, Mask]]:
    """Yield series of rewards and of advantages, with the steps in which all were equal."""
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    if len(top) == len(bottom) > 0:
        yield top, top.values - bottom.values < 1e-9
    top, bottom = run.series(_ADVANTAGE), run.series("critic/advantages/min")
    loss, critic = run.series("actor/pg_loss"), run.series("critic/vf_loss")
    # A log with three decimals prints advantages below 0.0005 as zeros, but not their loss.
    if len(top) == len(bottom) == len(loss) > 0 and not len(critic):
        yield top, (top.values == 0) & (bottom.values == 0) & (loss.values == 0)


def _find_onset(run: LoggedRun, series: Series, bad: Mask) -> int | None:
    index = tail_start(bad, run.least(_STEPS, series))
    return None if index is None or _is_chance(bad, index) else series.step(index)


def _is_chance(bad: Mask, index: int) -> bool:
    """Return whether all steps from ``index`` on may be bad by chance, at the rate before it."""
    return index > 0 and float(bad[:index].mean()) ** (bad.size - index) >= _CHANCE


def _zero_std(run: LoggedRun, onset: int) -> Finding:
    reward = run.series(metrics.REWARD_MEAN).since(onset)
    level = float(np.median(reward.values)) if len(reward) else float("nan")
    at, severity, steps = _level_of(run, reward, level), None, _steps_since(run, onset)
    # Different prompts get the same reward as well, not only the rollouts of one.
    is_one_number = len(reward) > 1 and float(np.ptp(reward.values)) < 1e-7
    zero_scores = _is_of_zero_scores(run, level)
    if (at == "equal" or zero_scores) and is_one_number and fixes.judge_test(run.case(onset)):
        at = "one_number"
    elif at == "all_right" and steps < max(_DONE_STEPS, _DONE_SHARE * _steps_since(run, 0)):
        severity = Severity.INFO
    evidence = [run.evidence("all groups are zero-std", onset, steps=steps, reward=level)]
    norm = run.series("actor/grad_norm").since(onset)
    if len(norm) and not norm.values.any():
        evidence.append(run.evidence("the gradient norm is exactly 0", onset, steps=len(norm)))
    evidence += cut_evidence(run)
    return KINDS[f"reward_zero_or_flat.{at}"].finding(
        run.case(onset),
        *evidence,
        severity=severity,
        steps=format_count(steps, "step"),
        level=figure(level),
        price=_format_cost(run, steps),
        judge=_JUDGE_GIVES_NOTHING if zero_scores else "",
    )


def _level_of(run: LoggedRun, reward: Series, level: float) -> str:
    """Return whether equal rewards are the best, the worst, or in between, as part of an ID."""
    low, high = _reward_range(run)
    at_top = high is not None and level >= high - 0.05 * abs(high - (low or 0.0))
    at_bottom = (low is not None and high is not None and level <= low + 0.05 * (high - low)) or (
        len(reward) > 0 and bool(np.all(np.abs(reward.values) < 1e-9))
    )
    if at_bottom:
        return "all_wrong"
    return "all_right" if at_top else "equal"


def _is_of_zero_scores(run: LoggedRun, level: float) -> bool:
    """Return whether this is GRubrics' reward if a judge scores all answers 0, or all alike."""
    weight = run.context.get("reward_config.lambda_defense")
    penalty = float(weight) if isinstance(weight, int | float) else _LAMBDA_DEFENSE
    return penalty > 0 and abs(level + penalty) < _ROUNDING


def _reward_range(run: LoggedRun) -> tuple[float | None, float | None]:
    """Return the possible rewards, else the lowest and highest that were logged."""
    if run.context.reward_range is not None:
        return run.context.reward_range
    rewards = run.series(metrics.REWARD_MEAN).values
    tops = run.first(metrics.REWARD_MAX, metrics.REWARD_MEAN).values
    bottoms = run.first(metrics.REWARD_MIN, metrics.REWARD_MEAN).values
    if not rewards.size or tops.max() - bottoms.min() < 1e-9:
        return None, None
    return float(bottoms.min()), float(tops.max())


def _format_cost(run: LoggedRun, steps: int) -> str:
    """Format what the wasted steps cost, as far as it is known."""
    times = run.series(metrics.STEP_TIME).values[-steps:]
    parts = [f"{format_count(steps, 'step')} wasted"]
    if (rollouts := run.context.rollouts_per_step) is not None:
        parts.append(f"{steps * rollouts:,} rollouts generated and judged")
    if times.size:
        parts.append(f"{figure(float(times.sum()) / 60)} minutes")
    return ", ".join(parts) + "."


def _steps_since(run: LoggedRun, onset: int) -> int:
    names = metrics.ZERO_STD_SHARE, metrics.REWARD_STD, metrics.REWARD_MAX, _ADVANTAGE
    return len(run.first(*names).since(onset))


def _always_zero(run: LoggedRun) -> Iterator[Finding]:
    reward, top = run.series(metrics.REWARD_MEAN), run.series(metrics.REWARD_MAX)
    has_top = len(top) == len(reward)
    zero = (reward.values == 0) & (top.values == 0) if has_top else reward.values == 0
    index = tail_start(zero, run.least(_STEPS, reward))
    if index is None:
        return
    # Without the highest reward, single zeros may be chance.
    is_brief = not index and len(reward) < _ZERO_STEPS and not _is_idle(run, reward)
    if not has_top and (is_brief or _is_chance(zero, index)):
        return
    onset, count = reward.step(index), len(reward) - index
    evidence = run.evidence("mean reward is 0", onset, steps=count)
    yield KINDS["reward_zero_or_flat.zero"].finding(run.case(onset), evidence, count=count)


def _is_idle(run: LoggedRun, reward: Series) -> bool:
    """Return whether all responses of a short log were cut off, or no gradient came from them."""
    norm = run.series("actor/grad_norm")
    is_still = len(norm) > 0 and not norm.values.any()
    return run.is_short and len(reward) > 1 and (is_still or bool(cut_evidence(run)))


def _mostly_zero_std(run: LoggedRun) -> Iterator[Finding]:
    """Find zero-std shares that are high on average over ten steps: one step has few groups."""
    share = run.series(metrics.ZERO_STD_SHARE)
    if len(share) < _MANY_STEPS:
        return
    rolling = np.convolve(share.values, np.ones(_MANY_STEPS) / _MANY_STEPS, mode="valid")
    index = tail_start(rolling > _MANY, 1)
    if index is None:
        return
    onset, now = share.step(index), float(rolling[-1])
    case, evidence = run.case(onset), run.evidence("share of zero-std groups", onset, share=now)
    if len(run.series(metrics.GROUPS_EQUAL)):
        # Dynamic sampling trains no such group, but each costs a generation.
        times = f"{1 / max(1 - now, 1e-3):.1f}"
        yield KINDS["reward_zero_or_flat.many_replaced"].finding(
            case, evidence, share=percent(now), times=times
        )
        return
    reward = run.series(metrics.REWARD_MEAN).since(onset)
    at = _level_of(run, reward, late_level(reward.values)) if len(reward) else "equal"
    is_low = at == "all_wrong" or (len(reward) > 0 and late_level(reward.values) < _LOW)
    level = "high" if at == "all_right" else "low" if is_low else "between"
    yield KINDS["reward_zero_or_flat.few_groups_learn"].finding(
        case,
        evidence,
        severity=Severity.INFO if at == "all_right" else None,
        fixes=KINDS.fixes(level, case),
        share=percent(now),
        rest=percent(1 - now),
    )


def _at_floor(run: LoggedRun) -> Iterator[Finding]:
    """Find a mean that is nearly always the lowest: no rollout of those steps earned more."""
    reward = run.series(metrics.REWARD_MEAN)
    if len(reward) < _FLOOR_STEPS or len(run.series(metrics.ZERO_STD_SHARE)):
        return
    half = len(reward) // 2
    low = float(reward.values.min())
    share = float(np.mean(reward.values[half:] <= low + 1e-9))
    if share < _FLOOR or np.ptp(reward.values) == 0:
        return
    onset = reward.step(half)
    evidence = run.evidence("share of steps at the lowest reward", onset, share=share, lowest=low)
    case, low_text = run.case(onset), figure(low)
    yield KINDS["reward_zero_or_flat.floor"].finding(
        case, evidence, share=percent(share), low=low_text
    )


def _saturated(run: LoggedRun) -> Iterator[Finding]:
    """Find a mean that is nearly always the highest, which is no fault of the run."""
    reward = run.series(metrics.REWARD_MEAN)
    low, high = _reward_range(run)
    if len(reward) < _MANY_STEPS or len(run.series(metrics.ZERO_STD_SHARE)):
        return
    spread = run.series(metrics.REWARD_STD)
    if len(spread) and late_level(spread.values) > _NO_SPREAD:
        return  # The rewards of a group differ, so it trains on them.
    if low is None or high is None or high <= 0:
        return
    at_top = reward.values >= high - 0.02 * (high - low)
    # The onset after which steps at the top most outnumber the others.
    index = int(np.argmax(np.cumsum((at_top - 0.7)[::-1])[::-1]))
    share, count = float(at_top[index:].mean()), len(reward) - index
    if share < _SATURATED or count < _MANY_STEPS:
        return
    onset = reward.step(index)
    yield KINDS["reward_zero_or_flat.saturated"].finding(
        run.case(onset),
        run.evidence("share of steps at the highest reward", onset, share=share, top=high),
        share=percent(share),
        count=count,
        high=figure(high),
    )


def _components(run: LoggedRun) -> Iterator[Finding]:
    """Find reward components that are always 0, or that are lost, while others move."""
    matches = (_COMPONENT.fullmatch(metric) for metric in run.columns.names)
    components = [
        (match["name"], series)
        for match in matches
        if match is not None
        and match["name"] not in _NO_COMPONENTS
        and len(series := run.series(match[0])) >= _COMPONENT_STEPS
    ]
    moving = [name for name, series in components if float(np.ptp(series.values)) > 0]
    for name, series in components:
        if moving and not series.values.any() and not _PENALTY.search(name):
            onset, count = series.step(0), len(series)
            evidence = run.evidence(f"{series.name} is 0", onset, steps=count)
            case, others = run.case(onset), ", ".join(moving[:3])
            yield KINDS["reward_zero_or_flat.component_zero"].finding(
                case, evidence, name=name, count=count, others=others
            )
        elif not _PENALTY.search(name):
            yield from _lost_component(run, name, series, components)


def _lost_component(
    run: LoggedRun, name: str, series: Series, components: Sequence[tuple[str, Series]]
) -> Iterator[Finding]:
    """Find a component that fell to nothing for good while another one rose."""
    index = tail_start(series.values <= _LOST * float(series.values.max()), _COMPONENT_STEPS)
    if index is None or index < _STEPS or _is_chance(series.values <= 0, index):
        return
    level, onset = float(np.median(series.values[:index][-20:])), series.step(index)
    risen = [
        (other, values)
        for other, values in components
        if other != name
        and len(values.until(onset))
        and late_level(values.values) - float(values.values[0]) >= _LOST_RISE
    ]
    if level <= 0 or not risen:
        return
    other, values = max(risen, key=lambda pair: late_level(pair[1].values))
    yield KINDS["reward_zero_or_flat.component_lost"].finding(
        run.case(onset),
        run.change(series, onset, "fell"),
        run.evidence(
            f"{values.name} went from {figure(float(values.values[0]))} to "
            f"{figure(late_level(values.values))}"
        ),
        *(run.change(length, onset, "went") for length in [run.series(LENGTH)] if len(length)),
        name=name,
        level=figure(level),
        count=len(series) - index,
        other=other,
    )


RULE = Rule(check)
