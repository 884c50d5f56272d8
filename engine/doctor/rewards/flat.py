"""Rewards without spread: eight causes that look alike in the curves and need opposite cures.

The tree, asked in this order, of steps in which every group is flat:
empty responses; gold that does not differ; texts that hold no rubric (cut at the cap, or of
another format); a judge that gives all answers one score whatever the rubric; one and the same
text in all rollouts of a group; everything right; everything wrong; else only that they are equal.
Thresholds: every group of the newest 2 steps, at least 6 groups, and more than chance makes of the
share of flat groups before them (1 in 10,000); 20 steps for "all right",
which a run that has learned its task reaches. Source: seed guide ("reward is 0", "std of about 0"),
grubrics history (a reward of exactly -0.3 is a judge vector of zeros).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.rollout_record import Rollout
from engine.doctor.rewards.step_counts import Tally
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.run_context import MetricContext

Capped = Callable[[int], float | None]
"""The share of a step's responses that were cut at the cap; None where it is not known."""

_STEPS = 2
_GROUPS = 6
_MOST = 0.9
_TOP_STEPS = 20
_CHANCE = 1e-4


def findings(
    steps: Sequence[Tally], context: MetricContext, path: str, capped: Capped
) -> Iterator[Finding]:
    stretch = _flat_stretch(steps)
    groups = sum(tally.spread()[0] for tally in stretch)
    if len(stretch) < _STEPS or groups < _GROUPS or _is_chance(steps, stretch[0].step, groups):
        return
    case = _Case(stretch, context, path, capped)
    yield next(found for branch in _TREE if (found := branch(case)) is not None)


def _flat_stretch(steps: Sequence[Tally]) -> list[Tally]:
    """The newest steps in a row without any spread; a step still being written may lack groups."""
    trained = [tally for tally in steps if tally.spread()[0]]
    stretch: list[Tally] = []
    for tally in reversed(trained):
        if not tally.is_flat:
            break
        stretch.append(tally)
    return stretch[::-1]


def _is_chance(steps: Sequence[Tally], onset: int, groups: int) -> bool:
    """Whether so many groups may be flat by chance, as single ones were before ``onset``."""
    before = [tally.spread() for tally in steps if tally.step < onset]
    several, flat = sum(one[0] for one in before), sum(one[1] for one in before)
    return several > 0 and (flat / several) ** groups >= _CHANCE


class _Case:
    """The flat steps, and what the branches ask of them."""

    def __init__(
        self, stretch: list[Tally], context: MetricContext, path: str, capped: Capped
    ) -> None:
        self.stretch, self.context, self.path = stretch, context, path
        self.onset, self.newest = stretch[0].step, stretch[-1]
        self.scored = sum(tally.scored for tally in stretch)
        self.low = min(tally.low for tally in stretch)
        self.high = max(tally.high for tally in stretch)
        self.samples = [one for tally in stretch[-3:] for one in tally.examples]
        self.capped = capped(self.newest.step)

    def share(self, name: str) -> float:
        """Of all scored rollouts of the stretch: how many count under ``name``."""
        return sum(int(getattr(tally, name)) for tally in self.stretch) / max(1, self.scored)

    def sampled(self, test: Callable[[Rollout], bool]) -> float:
        """The same of the rollouts kept as examples, for tests that cost more."""
        return sum(map(test, self.samples)) / len(self.samples) if self.samples else 0.0

    def finding(
        self,
        id: str,
        title: str,
        why: str,
        remedies: tuple[Remedy, ...],
        severity: Severity = Severity.ERROR,
        telling: Callable[[Rollout], bool] = lambda one: True,
    ) -> Finding:
        steps = len(self.stretch)
        level = f"{self.low:.3g}" if self.low == self.high else f"{self.low:.3g} to {self.high:.3g}"
        return Finding(
            id,
            severity,
            title,
            f"{why} All rollouts of a group have the same reward (here {level}) in the newest "
            f"{steps} steps, since step {self.onset}, so no advantage is left: {self.scored} "
            "rollouts trained nothing.",
            tuple(one.evidence(self.path) for one in _three(self.samples, telling)),
            remedies,
            self.onset,
            source="decision tree on the reward records",
        )


def _three(samples: Sequence[Rollout], test: Callable[[Rollout], bool]) -> list[Rollout]:
    """Two rollouts of one group and one of another, as far as there are."""
    fitting = [one for one in samples if test(one)] or list(samples)
    if not fitting:
        return []
    first = fitting[0]
    same = [one for one in fitting if one.group == first.group]
    other = [one for one in fitting if one.group != first.group]
    return [*same[:2], *other[: 3 - len(same[:2])]]


def _empty(case: _Case) -> Finding | None:
    if case.share("empty") < _MOST:
        return None
    return case.finding(
        "collapse_entropy_or_length.empty",
        "The responses are empty",
        f"{percent(case.share('empty'))} of the responses hold no text: the model ends at once.",
        (
            Remedy("Look at the prompt and at the end token: does the model begin an answer?"),
            cures.gentler(case.context),
            cures.earlier_checkpoint(case.onset),
        ),
        telling=lambda one: not one.text.strip(),
    )


def _flat_gold(case: _Case) -> Finding | None:
    golds = sum(tally.golds for tally in case.stretch)
    if not golds or case.share("gold_constant") < _MOST:
        return None
    return case.finding(
        "data_missing_or_schema.flat_gold",
        "The gold scores do not differ",
        "The gold scores of a question are all equal, so no rubric can rank its answers as gold "
        "does: alignment is 0 whatever the model writes.",
        (
            Remedy("Drop questions whose gold scores are equal, or compute their gold again"),
            Remedy("Count the useful rows: python -m engine.data.analyze shows them"),
        ),
        telling=lambda one: one.gold_is_constant,
    )


def _no_rubric(case: _Case) -> Finding | None:
    """Only for rubrics: another reward function reads other texts."""
    judged = sum(tally.judged for tally in case.stretch)
    if not judged or case.sampled(lambda one: not one.has_items) < _MOST:
        return None
    limit = case.context.get(cures.RESPONSE)
    if _is_cut(case):
        return case.finding(
            "reward_zero_or_flat.truncated",
            "Responses are cut before they hold a rubric",
            f"Responses are cut at the longest length allowed ({limit or 'not known'} tokens) and "
            "hold no rubric item yet, so the judge finds nothing to score.",
            (cures.longer(case.context), Remedy("Switch thinking off in the chat template")),
        )
    return case.finding(
        "reward_zero_or_flat.no_rubric",
        "The responses hold no rubric",
        'No rubric items are found in the texts (lines "Points: 2, Item: ..."), so the judge '
        "scores every answer 0: the model does not keep to the format.",
        (
            Remedy("Start from an SFT checkpoint, or put an example into the prompt"),
            Remedy("Compare a text with the parser's format in engine.rubrics.rubric"),
        ),
    )


def _is_cut(case: _Case) -> bool:
    if case.capped is not None:
        return case.capped >= _MOST
    limit = case.context.get(cures.RESPONSE)
    return isinstance(limit, int) and limit < 16


def _constant_judge(case: _Case) -> Finding | None:
    judged = sum(tally.judged for tally in case.stretch)
    values = set().union(*(tally.judge_values for tally in case.stretch))
    texts = {one.text for one in case.samples}
    if not judged or case.share("judge_constant") < _MOST or len(values) > 1 or len(texts) < 3:
        return None
    if case.sampled(lambda one: one.has_items) < _MOST:
        return None
    value = next(iter(values))
    return case.finding(
        "judge_parse_failure.constant",
        f"The judge scores everything {value:.3g}",
        f"The judge gives every answer the score {value:.3g}, whatever the rubric says: it does "
        "not judge. A stand-in, a broken prompt, or failures that were turned into a number look "
        "like this.",
        (
            Remedy("Test the judge on an answer that is clearly good and one that is clearly bad"),
            Remedy("Check judge.provider and judge.model: is this the judge that was meant?"),
            *cures.without_judge(case.context),
        ),
        telling=lambda one: one.judge_is_constant,
    )


def _one_text(case: _Case) -> Finding | None:
    groups = sum(tally.spread()[0] for tally in case.stretch)
    same = sum(tally.spread()[2] for tally in case.stretch)
    if same < _MOST * groups:
        return None
    return case.finding(
        "collapse_entropy_or_length.one_text",
        "The rollouts of a group are one and the same text",
        "The model writes the same text in every rollout of a group: it has lost its variety, or "
        "it is sampled without any.",
        (
            cures.setting(
                case.context,
                "actor_rollout_ref.rollout.temperature",
                1.0,
                "Sample at temperature 1.0",
                "texts differ again",
            ),
            cures.setting(
                case.context, f"{cures.ACTOR}.entropy_coeff", 0.003, "Add an entropy bonus", ""
            ),
            cures.earlier_checkpoint(case.onset),
        ),
    )


def _all_right(case: _Case) -> Finding | None:
    known = case.context.reward_range
    if known is None or case.low < known[1] - 0.05 * (known[1] - known[0]):
        return None
    long = len(case.stretch) >= _TOP_STEPS
    return case.finding(
        "reward_zero_or_flat.all_right",
        "Every rollout gets the highest reward",
        "The task has become too easy: everything is right.",
        (
            Remedy("Train on harder questions, or filter groups without spread"),
            Remedy("Stop here and evaluate: there is nothing left to learn from this data"),
        ),
        severity=Severity.WARNING if long else Severity.INFO,
    )


def _all_wrong(case: _Case) -> Finding | None:
    known = case.context.reward_range
    nothing = case.low == case.high == 0.0
    at_bottom = known is not None and case.high <= -case.context.get(
        "reward_config.lambda_defense", float("inf")
    )
    if not nothing and not at_bottom:
        return None
    return case.finding(
        "reward_zero_or_flat.all_wrong",
        "No rollout gets any reward",
        "Everything is scored, and nothing is right: the task is too hard for this model, or the "
        "answers are not recognised.",
        (
            Remedy("Compare the three rollouts with their gold by hand: are they really wrong?"),
            Remedy("Begin with easier questions, or from an SFT checkpoint"),
            cures.scaled(
                case.context,
                cures.ROLLOUTS,
                2,
                "More rollouts per prompt",
                "a better chance that one is right",
            ),
        ),
    )


def _equal(case: _Case) -> Finding:
    constant = case.low == case.high and len({one.text for one in case.samples}) > 2
    if constant:
        return case.finding(
            "reward_zero_or_flat.constant",
            f"The reward is always {case.low:.4g}",
            "The reward is one and the same number for different texts and questions: the reward "
            "function does not look at them.",
            (
                Remedy("Call the reward function on a good and on a bad text and compare"),
                *cures.own_reward(case.context),
            ),
        )
    return case.finding(
        "reward_zero_or_flat.equal",
        "The rewards of a group do not differ",
        "Rewards differ between questions, not between the rollouts of one.",
        (
            Remedy("Look at the three rollouts: do the texts differ where the reward looks?"),
            cures.setting(
                case.context,
                "actor_rollout_ref.rollout.temperature",
                1.0,
                "Sample at temperature 1.0",
                "texts differ more",
            ),
        ),
    )


_TREE: tuple[Callable[[_Case], Finding | None], ...] = (
    _empty,
    _flat_gold,
    _no_rubric,
    _constant_judge,
    _one_text,
    _all_right,
    _all_wrong,
    _equal,
)
