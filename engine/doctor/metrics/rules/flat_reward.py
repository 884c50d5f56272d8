"""Rules for rewards without a learning signal: all rollouts of a group get the same reward.

GRPO's advantage is a rollout's reward minus its group's mean: zero-std groups train nothing, and
their generation and judging are wasted. All right and all wrong need opposite fixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from engine.doctor.metrics.run import LENGTH, Run, Series, figure, percent
from engine.doctor.metrics.series_stats import Mask, late_level, tail_start
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.symptom import Case, Rule, Symptom
from engine.history import metrics

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

_HARDER = Remedy(
    "Use harder prompts", (), "rewards differ again; filter prompts that are always right"
)
_FILTER = Remedy("Filter zero-std groups before the update (DAPO)")
CHECK_BY_HAND = Remedy("Check the answer parser and the gold scores of three rollouts by hand")
COMPARE_ROLLOUTS = Remedy("Compare three rollouts of one group: do their texts and scores differ?")
_STD_SHAPE = (
    "in at least the last 3 steps, an in-group std of 0, a share of zero-std groups of 1, a "
    "highest reward equal to the lowest, or advantages and policy loss of 0 without a critic"
)
_STD_RULED_OUT = (
    "a run that learns from a teacher model; variance that returns; steps with few groups, if "
    "zero-std steps were so frequent before that these may be chance (1 in 10,000); logs of single "
    "samples, which have no std"
)
_NO_SIGNAL = (
    "All rollouts of a group get the same reward in each of the {steps} steps since step {onset} "
    "(mean reward {level}, the median of these steps), so every advantage is 0: {price}"
)
GRPO = "GRPO: advantage = reward - group mean"


def _easier(case: Case) -> tuple[Remedy, ...]:
    return (
        CHECK_BY_HAND,
        fixes.longer_responses(case.context),
        fixes.scaled(
            case.context,
            fixes.ROLLOUTS,
            2,
            "Sample more rollouts per prompt",
            "a better chance that one of them is right",
        ),
        Remedy("Start with easier prompts, or from an SFT checkpoint"),
    )


def _more_random(case: Case) -> tuple[Remedy, ...]:
    effect = "the responses of a group differ again"
    return fixes.sample_at_1(case.context, effect), COMPARE_ROLLOUTS


ALL_RIGHT = Symptom(
    id="reward_zero_or_flat.all_right",
    severity=Severity.WARNING,
    also=(Severity.INFO,),
    title="All groups are zero-std: no learning signal",
    cause="The task has become too easy: every response is right. " + _NO_SIGNAL,
    shape=f"{_STD_SHAPE}; the rewards are the highest possible",
    ruled_out=f"{_STD_RULED_OUT}. It is info for the first 20 such steps, or up to a quarter of "
    "the run: the task is learned",
    remedies=lambda _: (
        _HARDER,
        Remedy("Stop here: more training on this data will not improve the model"),
    ),
    source=f"{GRPO}; DAPO (arXiv 2503.14476) on filtering groups of accuracy 0 and 1",
)
ALL_WRONG = Symptom(
    id="reward_zero_or_flat.all_wrong",
    title="All groups are zero-std: no learning signal",
    cause="No response gets any reward. " + _NO_SIGNAL,
    shape=f"{_STD_SHAPE}; the rewards are the lowest possible",
    ruled_out=_STD_RULED_OUT,
    remedies=_easier,
    source=f"{GRPO}; DAPO (arXiv 2503.14476) on filtering groups of accuracy 0 and 1",
)
EQUAL = Symptom(
    id="reward_zero_or_flat.equal",
    title="All groups are zero-std: no learning signal",
    cause="The responses of a group, or what the reward reads of them, are equal. " + _NO_SIGNAL,
    shape=f"{_STD_SHAPE}; the rewards are neither the highest nor the lowest",
    ruled_out=_STD_RULED_OUT,
    remedies=_more_random,
    not_checked=("why the rewards are equal: metrics do not show it, rollouts do",),
    source=GRPO,
)
ONE_NUMBER = Symptom(
    id="reward_zero_or_flat.one_number",
    title="Every response gets the same reward: no learning signal",
    cause="Responses to different prompts are never that similar: the judge gives no scores, or "
    "the same to all. With GRubrics' weights, the reward is -0.3 if all scores of a judge are 0: "
    "no alignment, and the penalty for scores without variance. " + _NO_SIGNAL,
    shape=f"{_STD_SHAPE}; the mean reward is one and the same number in all of these steps",
    ruled_out=_STD_RULED_OUT,
    remedies=lambda case: (*fixes.judge_test(case.context), *_more_random(case)),
    not_checked=("the judge's replies: metrics do not show them",),
    source=GRPO,
)
ALWAYS_ZERO = Symptom(
    id="reward_zero_or_flat.zero",
    title="Reward is exactly 0",
    cause="The mean reward is exactly 0 in all of the last {count} steps, since step {onset}: "
    "either no response is right, or the reward gets no usable input (a judge that fails, a parser "
    "that finds no answer, rows without gold scores).",
    shape="a reward of exactly 0 from the start for 10 steps, or at the end for more than chance; "
    "for 3 steps if the highest reward is 0 too",
    ruled_out="means of a single response, which may be 0 by chance",
    remedies=_easier,
    not_checked=("which of these it is: that takes the reward records or the console log",),
    source="seed guide: reward is 0 in all steps",
)
MANY_EQUAL = Symptom(
    id="reward_zero_or_flat.few_groups_learn",
    severity=Severity.WARNING,
    also=(Severity.INFO,),
    title="{share} of groups are zero-std",
    cause="{share} of the groups of the last 10 steps have equal rewards. Their rollouts are "
    "generated and judged but have zero advantage; the effective batch is {rest} of the "
    "configured one.",
    shape="more than 80% zero-std groups, over 10 steps; info if every response is right",
    remedies=lambda case: (*_easier(case), _FILTER),
    source="DAPO, arXiv 2503.14476",
)
MANY_REPLACED = Symptom(
    id="reward_zero_or_flat.many_replaced",
    severity=Severity.WARNING,
    title="{share} of generated groups are replaced",
    cause="{share} of the groups generated in the last 10 steps have equal rewards and were "
    "discarded: a step generates and judges {times} times what it trains on.",
    shape="with dynamic sampling: more than 80% zero-std groups, over 10 steps",
    remedies=lambda _: (
        Remedy("Remove the prompts whose groups are always zero-std from the training file"),
    ),
    source="DAPO, arXiv 2503.14476",
)
AT_FLOOR = Symptom(
    id="reward_zero_or_flat.floor",
    severity=Severity.WARNING,
    title="Reward is stuck at its minimum",
    cause="{share} of the steps since step {onset} have the lowest mean reward of the run, {low}: "
    "no rollout in them earned more, so there is hardly anything to learn from.",
    shape="a mean reward at its lowest in 19 of 20 steps of the second half, of at least 20 steps",
    ruled_out="logs with a share of zero-std groups, which have their own rules",
    remedies=_easier,
    confidence=0.7,
    not_checked=("whether the task is too hard or its answers are not recognized",),
    source=GRPO,
)
SATURATED = Symptom(
    id="reward_zero_or_flat.saturated",
    severity=Severity.INFO,
    title="Reward is saturated at its maximum",
    cause="{share} of the {count} steps since step {onset} have the highest reward, {high}: little "
    "is left to learn from this data, and about {share} of the work trains nothing.",
    shape="a mean reward at its highest in nine of ten steps, of at least 10",
    ruled_out="a reward that is merely high",
    remedies=lambda _: (_HARDER,),
    confidence=0.8,
    source="share of steps at the maximum",
)
COMPONENT_ZERO = Symptom(
    id="reward_zero_or_flat.component_zero",
    severity=Severity.WARNING,
    title="Reward component '{name}' is always 0",
    cause="'{name}' is exactly 0 in all {count} steps while {others} moves: its pattern or its "
    "condition is never met, so it teaches nothing.",
    shape="TRL's `rewards/NAME` (or `rewards/NAME/mean`) exactly 0 in all of at least 8 steps, "
    "with another component that moves",
    ruled_out="penalties, for which 0 is the goal; short logs",
    remedies=lambda _: (
        Remedy("Run that component by hand on three responses: does its pattern fit the prompt?"),
        Remedy("Describe the expected format in the prompt, with an example"),
    ),
    confidence=0.85,
    source="failure classes: one component always 0, mostly a format regex that never matches",
)

COMPONENT_LOST = Symptom(
    id="reward_zero_or_flat.component_lost",
    severity=Severity.WARNING,
    title="Reward component '{name}' was lost",
    cause="'{name}' was about {level} and is 0, or nearly, in all {count} steps since step "
    "{onset}, while '{other}' rose: the model learned what '{other}' pays for, and gave up the "
    "rest.",
    shape="a reward component that falls below a fiftieth of its highest value in all of at least "
    "the last 8 steps, while another one rises by at least 0.1",
    ruled_out="penalties, for which 0 is the goal; a component that was so often 0 before that "
    "this may be chance (1 in 10,000)",
    remedies=lambda _: (
        Remedy("Pay for the form only if the answer is right, or lower the weight of what rose"),
        Remedy("Read three of the newest rollouts: what is left of the answer?"),
    ),
    confidence=0.85,
    source="reward hacking: the easiest component is learned alone",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _components(run)
    if not run.has_rewards or is_distilled(run):
        return
    onset = _zero_std_onset(run)
    if onset is not None:
        yield _zero_std(run, onset)
        return
    yield from _always_zero(run)
    yield from _mostly_zero_std(run)
    yield from _at_floor(run)
    yield from _saturated(run)


def is_distilled(run: Run) -> bool:
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


def _zero_std_onset(run: Run) -> int | None:
    """Return the step since which all groups are zero-std."""
    share, std = run.series(metrics.ZERO_STD_SHARE), run.series(metrics.REWARD_STD)
    if len(share):
        return _find_onset(share, share.values > 0.999)
    if len(std):
        scale = max(1.0, float(np.abs(run.series(metrics.REWARD_MEAN).values).max(initial=0.0)))
        return _find_onset(std, std.values < _NO_SPREAD * scale)
    onsets = [_find_onset(series, equal) for series, equal in equal_steps(run)]
    return next((onset for onset in onsets if onset is not None), None)


def equal_steps(run: Run) -> Iterator[tuple[Series, Mask]]:
    """Yield series of rewards and of advantages, with the steps in which all were equal."""
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    if len(top) == len(bottom) > 0:
        yield top, top.values - bottom.values < 1e-9
    top, bottom = run.series(_ADVANTAGE), run.series("critic/advantages/min")
    loss, critic = run.series("actor/pg_loss"), run.series("critic/vf_loss")
    # A log with three decimals prints advantages below 0.0005 as zeros, but not their loss.
    if len(top) == len(bottom) == len(loss) > 0 and not len(critic):
        yield top, (top.values == 0) & (bottom.values == 0) & (loss.values == 0)


def _find_onset(series: Series, bad: Mask) -> int | None:
    index = tail_start(bad, _STEPS)
    return None if index is None or _is_chance(bad, index) else series.step(index)


def _is_chance(bad: Mask, index: int) -> bool:
    """Return whether all steps from ``index`` on may be bad by chance, at the rate before it."""
    return index > 0 and float(bad[:index].mean()) ** (bad.size - index) >= _CHANCE


def _zero_std(run: Run, onset: int) -> Finding:
    reward = run.series(metrics.REWARD_MEAN).since(onset)
    level = float(np.median(reward.values)) if len(reward) else float("nan")
    symptom, severity, steps = _symptom_at(run, reward, level), None, _steps_since(run, onset)
    # Different prompts get the same reward as well, not only the rollouts of one.
    is_one_number = len(reward) > 1 and float(np.ptp(reward.values)) < 1e-7
    may_be_judge = symptom is EQUAL or _is_of_zero_scores(run, level)
    if may_be_judge and is_one_number and fixes.judge_test(run.context):
        symptom = ONE_NUMBER
    elif symptom is ALL_RIGHT and steps < max(_DONE_STEPS, _DONE_SHARE * _steps_since(run, 0)):
        severity = Severity.INFO
    evidence = [run.evidence("all groups are zero-std", onset, steps=steps, reward=level)]
    norm = run.series("actor/grad_norm").since(onset)
    if len(norm) and not norm.values.any():
        evidence.append(run.evidence("the gradient norm is exactly 0", onset, steps=len(norm)))
    return symptom.finding(
        run.case(onset),
        *evidence,
        severity=severity,
        steps=steps,
        onset=onset,
        level=figure(level),
        price=_format_cost(run, steps),
    )


def _symptom_at(run: Run, reward: Series, level: float) -> Symptom:
    """Return whether the equal rewards are the best, the worst, or in between."""
    low, high = _reward_range(run)
    at_top = high is not None and level >= high - 0.05 * abs(high - (low or 0.0))
    at_bottom = (low is not None and high is not None and level <= low + 0.05 * (high - low)) or (
        len(reward) > 0 and bool(np.all(np.abs(reward.values) < 1e-9))
    )
    if at_bottom:
        return ALL_WRONG
    return ALL_RIGHT if at_top else EQUAL


def _is_of_zero_scores(run: Run, level: float) -> bool:
    """Return whether this is GRubrics' reward if a judge scores all answers 0, or all alike."""
    weight = run.context.get("reward_config.lambda_defense")
    penalty = float(weight) if isinstance(weight, int | float) else _LAMBDA_DEFENSE
    return penalty > 0 and abs(level + penalty) < _ROUNDING


def _reward_range(run: Run) -> tuple[float | None, float | None]:
    """Return the possible rewards, else the lowest and highest that were logged."""
    if run.context.reward_range is not None:
        return run.context.reward_range
    rewards = run.series(metrics.REWARD_MEAN).values
    tops = run.first(metrics.REWARD_MAX, metrics.REWARD_MEAN).values
    bottoms = run.first(metrics.REWARD_MIN, metrics.REWARD_MEAN).values
    if not rewards.size or tops.max() - bottoms.min() < 1e-9:
        return None, None
    return float(bottoms.min()), float(tops.max())


def _format_cost(run: Run, steps: int) -> str:
    """Format what the wasted steps cost, as far as it is known."""
    sizes = run.context.get("data.train_batch_size"), run.context.get(fixes.ROLLOUTS)
    times = run.series(metrics.STEP_TIME).values[-steps:]
    parts = [f"{steps} steps wasted"]
    if all(isinstance(size, int) for size in sizes):
        parts.append(f"{steps * sizes[0] * sizes[1]:,} rollouts generated and judged")
    if times.size:
        parts.append(f"{figure(float(times.sum()) / 60)} minutes")
    return ", ".join(parts) + "."


def _steps_since(run: Run, onset: int) -> int:
    names = metrics.ZERO_STD_SHARE, metrics.REWARD_STD, metrics.REWARD_MAX, _ADVANTAGE
    return len(run.first(*names).since(onset))


def _always_zero(run: Run) -> Iterator[Finding]:
    reward, top = run.series(metrics.REWARD_MEAN), run.series(metrics.REWARD_MAX)
    has_top = len(top) == len(reward)
    zero = (reward.values == 0) & (top.values == 0) if has_top else reward.values == 0
    index = tail_start(zero, _STEPS)
    if index is None:
        return
    # Without the highest reward, single zeros may be chance.
    is_short = not index and len(reward) < _ZERO_STEPS
    if not has_top and (is_short or _is_chance(zero, index)):
        return
    onset, count = reward.step(index), len(reward) - index
    evidence = run.evidence("mean reward is 0", onset, steps=count)
    yield ALWAYS_ZERO.finding(run.case(onset), evidence, count=count, onset=onset)


def _mostly_zero_std(run: Run) -> Iterator[Finding]:
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
        yield MANY_REPLACED.finding(case, evidence, share=percent(now), times=times)
        return
    reward = run.series(metrics.REWARD_MEAN).since(onset)
    at = _symptom_at(run, reward, late_level(reward.values)) if len(reward) else EQUAL
    yield MANY_EQUAL.finding(
        case,
        evidence,
        severity=Severity.INFO if at is ALL_RIGHT else None,
        remedies=_by_level(case, reward, at),
        share=percent(now),
        rest=percent(1 - now),
    )


def _by_level(case: Case, reward: Series, at: Symptom) -> tuple[Remedy, ...]:
    """Return harder prompts where most rewards are high, easier ones where most are low."""
    is_low = at is ALL_WRONG or (len(reward) > 0 and late_level(reward.values) < _LOW)
    if at is ALL_RIGHT:
        return _HARDER, _FILTER
    return (*_easier(case), _FILTER) if is_low else (_FILTER, COMPARE_ROLLOUTS)


def _at_floor(run: Run) -> Iterator[Finding]:
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
    yield AT_FLOOR.finding(case, evidence, share=percent(share), low=low_text, onset=onset)


def _saturated(run: Run) -> Iterator[Finding]:
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
    yield SATURATED.finding(
        run.case(onset),
        run.evidence("share of steps at the highest reward", onset, share=share, top=high),
        share=percent(share),
        count=count,
        onset=onset,
        high=figure(high),
    )


def _components(run: Run) -> Iterator[Finding]:
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
            yield COMPONENT_ZERO.finding(case, evidence, name=name, count=count, others=others)
        elif not _PENALTY.search(name):
            yield from _lost_component(run, name, series, components)


def _lost_component(
    run: Run, name: str, series: Series, components: Sequence[tuple[str, Series]]
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
    yield COMPONENT_LOST.finding(
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
        onset=onset,
        other=other,
    )


RULE = Rule(check)
