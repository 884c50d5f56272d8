"""No learning signal: every rollout of a group gets the same reward.

GRPO's advantage is a rollout's reward less its group's mean: groups without spread train nothing,
and their generation and judging are wasted. All right and all wrong need opposite cures.

Shape: for the last 3 steps and more an in-group std of 0, a share of zero-spread groups of 1, or a
highest reward equal to the lowest, or advantages and policy loss of 0 without a critic; a reward of
exactly 0 from the start for 10 steps, or at the end for more than chance; a warning from 80 %
zero-spread groups over 10 steps, and for a mean that is at its lowest in 19 of 20 steps.
Ruled out: a run that is taught by another model (``distilled``); spread that comes back; steps of
few groups that were flat as often before, so that these may be so by chance (1 in 10,000); a task
that is learned (info for 20 steps and a quarter of the run); single-sample logs (no std); a reward
that is merely high.
Source: seed guide ("std of about 0 inside the group: no advantage"); DAPO (arXiv 2503.14476) on
filtering groups of accuracy 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure, percent
from engine.doctor.metrics.series_stats import Mask, lasting, late
from engine.doctor.metrics.teacher import is_distilled
from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics

_STEPS = 3
_ZERO_STEPS = 10
_CHANCE = 1e-4
_ADVANTAGE = "critic/advantages/max"
_MANY = 0.8
_MANY_STEPS = 10
_NO_SPREAD = 1e-4
_SATURATED = 0.9
_FLOOR, _FLOOR_STEPS = 0.95, 20
_DONE_STEPS = 20
_DONE_SHARE = 0.25
"""A run that has learned its task ends so, and is no worse for it."""
_LAMBDA_DEFENSE = 0.3
"""The default of ``reward_config.lambda_defense``."""
_ROUNDING = 1e-5


def check(run: Run) -> Iterator[Finding]:
    if is_distilled(run):
        return
    onset = _no_spread(run)
    if onset is not None:
        yield _equal_groups(run, onset)
        return
    yield from _always_zero(run)
    yield from _many_equal(run)
    yield from _at_floor(run)
    yield from _saturated(run)


def _no_spread(run: Run) -> int | None:
    """The step since which no group has had any spread."""
    share, std = run.series(metrics.ZERO_STD_SHARE), run.series(metrics.REWARD_STD)
    if len(share):
        return _since(share, share.values > 0.999)
    if len(std):
        scale = max(1.0, float(np.abs(run.series(metrics.REWARD_MEAN).values).max(initial=0.0)))
        return _since(std, std.values < _NO_SPREAD * scale)
    onsets = [_since(*one) for one in one_valued(run)]
    return next((onset for onset in onsets if onset is not None), None)


def one_valued(run: Run) -> Iterator[tuple[Series, Mask]]:
    """Records of the rewards and of the advantages, and in which of them all were the same."""
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    if len(top) == len(bottom) > 0:
        yield top, top.values - bottom.values < 1e-9
    top, bottom = run.series(_ADVANTAGE), run.series("critic/advantages/min")
    loss, critic = run.series("actor/pg_loss"), run.series("critic/vf_loss")
    # Of advantages below 0.0005 a log with three decimals prints zeros, but not of their loss.
    if len(top) == len(bottom) == len(loss) > 0 and not len(critic):
        yield top, (top.values == 0) & (bottom.values == 0) & (loss.values == 0)


def _since(series: Series, sick: Mask) -> int | None:
    place = lasting(sick, _STEPS)
    return None if place is None or _is_chance(sick, place) else series.step(place)


def _is_chance(sick: Mask, place: int) -> bool:
    """Whether the steps since ``place`` may be sick by chance, as single ones were before."""
    return place > 0 and float(sick[:place].mean()) ** (sick.size - place) >= _CHANCE


def _equal_groups(run: Run, onset: int) -> Finding:
    case = _Flat.of(run, onset)
    is_possible = case.side == "equal" or _is_of_zero_scores(case)
    if is_possible and _is_one_number(case) and cures.judge_test(run.context):
        return _one_number(case)
    return {"all_right": _all_right, "all_wrong": _all_wrong, "equal": _equal}[case.side](case)


@dataclass(frozen=True)
class _Flat:
    """Steps without any spread, and on which side of the possible rewards they lie."""

    run: Run
    onset: int
    steps: int
    level: float
    side: str

    @classmethod
    def of(cls, run: Run, onset: int) -> _Flat:
        reward = run.series(metrics.REWARD_MEAN).since(onset)
        level = float(np.median(reward.values)) if len(reward) else float("nan")
        return cls(run, onset, _steps_since(run, onset), level, _side(run, reward, level))

    def finding(
        self,
        id: str,
        title: str,
        why: str,
        remedies: tuple[Remedy, ...],
        severity: Severity = Severity.ERROR,
        not_checked: tuple[str, ...] = (),
    ) -> Finding:
        run, onset, steps = self.run, self.onset, self.steps
        return Finding(
            id,
            severity,
            title,
            f"{why} All rollouts of a group get the same reward in each of the {steps} steps since "
            f"step {onset} (mean reward {figure(self.level)}, the median of these steps), so every "
            f"advantage is 0: {_price(run, steps)}",
            (
                run.seen(
                    "no group has any spread of rewards", onset, steps=steps, reward=self.level
                ),
                *_still_gradient(run, onset),
            ),
            remedies,
            onset,
            not_checked=not_checked,
            source="GRPO: advantage = reward - group mean",
        )


_NOTHING_LEARNED = "Every group has equal rewards: nothing is learned"


def _all_right(case: _Flat) -> Finding:
    done = case.steps < max(_DONE_STEPS, _DONE_SHARE * _steps_since(case.run, 0))
    return case.finding(
        "reward_zero_or_flat.all_right",
        _NOTHING_LEARNED,
        "The task has become too easy: everything is right.",
        _harder(case.run),
        Severity.INFO if done else Severity.WARNING,
    )


def _all_wrong(case: _Flat) -> Finding:
    return case.finding(
        "reward_zero_or_flat.all_wrong",
        _NOTHING_LEARNED,
        "Nothing gets any reward: no response is right.",
        _easier(case.run),
    )


def _equal(case: _Flat) -> Finding:
    return case.finding(
        "reward_zero_or_flat.equal",
        _NOTHING_LEARNED,
        "The responses of a group, or what the reward sees of them, are equal.",
        _more_random(case),
        not_checked=("why the rewards are equal: the series alone do not show it, rollouts do",),
    )


def _one_number(case: _Flat) -> Finding:
    return case.finding(
        "reward_zero_or_flat.one_number",
        "Every response gets the same reward: nothing is learned",
        "Responses of different prompts are not that much alike: the judge gives no scores, or "
        "the same to all. GRubrics' weights make it -0.3 when all scores of a judge are 0: no "
        "alignment, and the penalty for scores without spread.",
        (*cures.judge_test(case.run.context), *_more_random(case)),
        not_checked=("what the judge says: the series alone do not show it, its replies do",),
    )


def _more_random(case: _Flat) -> tuple[Remedy, ...]:
    return (
        cures.setting(
            case.run.context,
            "actor_rollout_ref.rollout.temperature",
            1.0,
            "Sample at temperature 1.0",
            "the responses of a group differ again",
        ),
        Remedy("Look at three rollouts of one group: do the texts differ, and their scores?"),
    )


def _is_one_number(case: _Flat) -> bool:
    """Whether prompts get the same reward as well, not only the rollouts of one."""
    reward = case.run.series(metrics.REWARD_MEAN).since(case.onset)
    return len(reward) > 1 and float(np.ptp(reward.values)) < 1e-7


def _is_of_zero_scores(case: _Flat) -> bool:
    """Whether this is GRubrics' reward when a judge scores every answer 0, or all alike."""
    weight = case.run.context.get("reward_config.lambda_defense")
    penalty = float(weight) if isinstance(weight, int | float) else _LAMBDA_DEFENSE
    return penalty > 0 and abs(case.level + penalty) < _ROUNDING


def _side(run: Run, reward: Series, level: float) -> str:
    """Whether the equal rewards are the best, the worst, or in between."""
    low, high = _range(run)
    at_top = high is not None and level >= high - 0.05 * abs(high - (low or 0.0))
    at_bottom = (low is not None and high is not None and level <= low + 0.05 * (high - low)) or (
        len(reward) > 0 and bool(np.all(np.abs(reward.values) < 1e-9))
    )
    if at_top and not at_bottom:
        return "all_right"
    return "all_wrong" if at_bottom else "equal"


def _range(run: Run) -> tuple[float | None, float | None]:
    if run.context.reward_range is not None:
        return run.context.reward_range
    rewards = run.series(metrics.REWARD_MEAN).values
    tops = run.first(metrics.REWARD_MAX, metrics.REWARD_MEAN).values
    bottoms = run.first(metrics.REWARD_MIN, metrics.REWARD_MEAN).values
    if not rewards.size or tops.max() - bottoms.min() < 1e-9:
        return None, None
    return float(bottoms.min()), float(tops.max())


def _harder(run: Run) -> tuple[Remedy, ...]:
    return (
        Remedy(
            "Train on questions that the model does not solve always",
            (),
            "groups have spread again; filter those it gets right every time",
        ),
        Remedy("Stop here: the last checkpoint is as good as this data makes it"),
    )


def _easier(run: Run) -> tuple[Remedy, ...]:
    return (
        Remedy("Check the answer parser and the gold of three rollouts by hand first"),
        cures.longer(run.context),
        cures.scaled(
            run.context,
            cures.ROLLOUTS,
            2,
            "Sample more rollouts per prompt",
            "a better chance that one of them is right",
        ),
        Remedy("Begin with easier questions, or from an SFT checkpoint"),
    )


def _price(run: Run, steps: int) -> str:
    """What the wasted steps cost, as far as it is known."""
    rollouts = run.context.get("data.train_batch_size"), run.context.get(cures.ROLLOUTS)
    times = run.series(metrics.STEP_TIME).values[-steps:]
    parts = [f"{steps} steps wasted"]
    if all(isinstance(one, int) for one in rollouts):
        parts.append(f"{steps * rollouts[0] * rollouts[1]:,} rollouts generated and judged")
    if times.size:
        parts.append(f"{figure(float(times.sum()) / 60)} minutes")
    return ", ".join(parts) + "."


def _still_gradient(run: Run, onset: int) -> Iterator[Evidence]:
    norm = run.series("actor/grad_norm").since(onset)
    if len(norm) and np.all(norm.values == 0):
        yield run.seen("the gradient norm is exactly 0", onset, steps=len(norm))


def _steps_since(run: Run, onset: int) -> int:
    names = metrics.ZERO_STD_SHARE, metrics.REWARD_STD, metrics.REWARD_MAX, _ADVANTAGE
    return len(run.first(*names).since(onset))


def _always_zero(run: Run) -> Iterator[Finding]:
    reward, top = run.series(metrics.REWARD_MEAN), run.series(metrics.REWARD_MAX)
    if len(top) == len(reward):
        zero = (reward.values == 0) & (top.values == 0)
        place = lasting(zero, _STEPS)
    else:
        place = _lasting_zero(reward)
    if place is None:
        return
    onset = reward.step(place)
    yield Finding(
        "reward_zero_or_flat.zero",
        Severity.ERROR,
        "The reward is exactly 0",
        f"The mean reward is exactly 0 in all of the last {len(reward) - place} steps, since step "
        f"{onset}: either nothing is right, or nothing reaches the reward (a judge that fails, a "
        "parser that finds no answer, rows without gold).",
        (run.seen("mean reward is 0", onset, steps=len(reward) - place),),
        _easier(run),
        onset,
        not_checked=("which of these it is: that takes the reward records or the console log",),
        source="seed guide: reward is 0 in all steps",
    )


def _lasting_zero(reward: Series) -> int | None:
    """Where the zeros at the end begin, if so many are no chance: a mean may be of one answer."""
    zero = reward.values == 0
    place = lasting(zero, _STEPS)
    if place is None or _is_chance(zero, place):
        return None
    return place if place or len(reward) >= _ZERO_STEPS else None


def _many_equal(run: Run) -> Iterator[Finding]:
    """Most groups train nothing; smoothed over ten steps, as one step has few groups."""
    share = run.series(metrics.ZERO_STD_SHARE)
    if len(share) < _MANY_STEPS:
        return
    kernel = np.ones(_MANY_STEPS) / _MANY_STEPS
    rolling = np.convolve(share.values, kernel, mode="valid")
    place = lasting(rolling > _MANY, 1)
    if place is None:
        return
    onset, now = share.step(place), float(rolling[-1])
    if len(run.series(metrics.GROUPS_EQUAL)):
        yield _many_replaced(run, onset, now)
        return
    reward = run.series(metrics.REWARD_MEAN).since(onset)
    learned = len(reward) > 0 and _side(run, reward, late(reward.values)) == "all_right"
    yield Finding(
        "reward_zero_or_flat.few_groups_learn",
        Severity.INFO if learned else Severity.WARNING,
        f"{percent(now)} of the groups train nothing",
        f"{percent(now)} of the groups of the last {_MANY_STEPS} steps have equal rewards: their "
        "rollouts are generated and judged, and give no advantage. A batch that trains is in fact "
        f"{1 - now:.2f} of what the recipe says.",
        (run.seen("share of groups without spread", onset, share=now),),
        (_harder(run)[0], Remedy("Filter groups without spread before the update (DAPO)")),
        onset,
        source="DAPO, arXiv 2503.14476",
    )


def _many_replaced(run: Run, onset: int, now: float) -> Finding:
    """With dynamic sampling no such group is trained, and each costs a generation."""
    return Finding(
        "reward_zero_or_flat.many_replaced",
        Severity.WARNING,
        f"{percent(now)} of the generated groups are replaced",
        f"{percent(now)} of the groups generated in the last {_MANY_STEPS} steps have equal "
        f"rewards and were evicted: a step generates and judges {1 / max(1 - now, 1e-3):.1f} times "
        "what it trains on.",
        (run.seen("share of groups without spread", onset, share=now),),
        (Remedy("Drop the prompts whose groups are always equal from the training file"),),
        onset,
        source="DAPO, arXiv 2503.14476",
    )


def _at_floor(run: Run) -> Iterator[Finding]:
    """A mean that is nearly always the very lowest: no rollout of those steps earned anything."""
    reward = run.series(metrics.REWARD_MEAN)
    if len(reward) < _FLOOR_STEPS or len(run.series(metrics.ZERO_STD_SHARE)):
        return
    newest = reward.values[len(reward) // 2 :]
    low = float(reward.values.min())
    share = float(np.mean(newest <= low + 1e-9))
    if share < _FLOOR or np.ptp(reward.values) == 0:
        return
    onset = reward.step(len(reward) // 2)
    yield Finding(
        "reward_zero_or_flat.floor",
        Severity.WARNING,
        "The reward is at its lowest nearly always",
        f"{percent(share)} of the steps since step {onset} have the lowest mean reward there is, "
        f"{figure(low)}: nothing in them earned more, so there is hardly anything to learn from.",
        (run.seen("share of steps at the lowest reward", onset, share=share, lowest=low),),
        _easier(run),
        onset,
        confidence=0.7,
        not_checked=("whether the task is too hard or its answers are not recognised",),
        source="GRPO: advantage = reward - group mean",
    )


def _saturated(run: Run) -> Iterator[Finding]:
    """A mean that is nearly always the highest seen: worth knowing, and no fault of the run."""
    reward = run.series(metrics.REWARD_MEAN)
    low, high = _range(run)
    if len(reward) < _MANY_STEPS or len(run.series(metrics.ZERO_STD_SHARE)):
        return
    if low is None or high is None or high <= 0:
        return
    at_top = reward.values >= high - 0.02 * (high - low)
    # Where the steps at the top most outweigh the others, counted from the end.
    place = int(np.argmax(np.cumsum((at_top - 0.7)[::-1])[::-1]))
    share, count = float(at_top[place:].mean()), len(reward) - place
    if share < _SATURATED or count < _MANY_STEPS:
        return
    onset = reward.step(place)
    yield Finding(
        "reward_zero_or_flat.saturated",
        Severity.INFO,
        "The reward is at its highest nearly always",
        f"{percent(share)} of the {count} steps since step {onset} have the highest reward, "
        f"{figure(high)}: little is left to learn from this data, and about {percent(share)} of "
        "the work trains nothing.",
        (run.seen("share of steps at the highest reward", onset, share=share, top=high),),
        (_harder(run)[0],),
        onset,
        confidence=0.8,
        source="price of saturation: steps at the top / steps",
    )
