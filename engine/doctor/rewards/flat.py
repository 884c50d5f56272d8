"""Rules for rewards without spread: causes that look alike in metrics and need opposite fixes.

For steps in which every group is zero-std, these are asked in order: empty responses; gold scores
that do not differ; texts without a rubric (cut at the length limit, or in another format); a judge
that gives all answers one score; the same text in all rollouts of a group; everything right;
everything wrong; else only that the rewards are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.rollout_record import Rollout
from engine.doctor.rewards.step_counts import RewardSteps, StepCounts
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Change, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom

CutShare = Callable[[int], float | None]
"""The share of a step's responses that were cut at the length limit; None where it is unknown."""

_STEPS = 2
_GROUPS = 6
_MOST = 0.9
_TOP_STEPS = 20
_CHANCE = 1e-4
_USELESS = 0.1
_ENOUGH = 40
_TEMPERATURE = "actor_rollout_ref.rollout.temperature"
_FLAT = (
    " All rollouts of a group have the same reward (here {level}) in the newest {steps} steps, "
    "since step {onset}, so no advantage is left: {scored} rollouts trained nothing."
)
_SHAPE = "every group of the newest 2 steps and at least 6 groups is zero-std, and "
_RULED_OUT = "as many flat groups as chance makes of their share before (1 in 10,000)"
_SOURCE = "decision tree on the reward records"


def _sampled_at_1(case: Case, effect: str) -> Remedy:
    return fixes.setting(case.context, _TEMPERATURE, 1.0, "Sample at temperature 1.0", effect)


EMPTY = Symptom(
    id="collapse_entropy_or_length.empty",
    title="Responses are empty",
    cause="{share} of the responses contain no text: the model ends at once." + _FLAT,
    shape=f"{_SHAPE}nine of ten responses are empty",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        Remedy("Check the prompt and the end token: does the model start a response?"),
        fixes.lower_rate(case.context),
        fixes.earlier_checkpoint(case.onset),
    ),
    source=_SOURCE,
)
FLAT_GOLD = Symptom(
    id="data_missing_or_schema.flat_gold",
    title="Gold scores do not differ",
    cause="The gold scores of a question are all equal, so no rubric can rank its answers as gold "
    "does: alignment is 0 whatever the model writes." + _FLAT,
    shape=f"{_SHAPE}nine of ten rollouts belong to questions with equal gold scores",
    ruled_out=_RULED_OUT,
    remedies=lambda _: (
        Remedy("Drop questions whose gold scores are equal, or compute them again"),
        Remedy("Count the useful rows: python -m engine.data.analyze shows them"),
    ),
    source=_SOURCE,
)
TRUNCATED = Symptom(
    id="reward_zero_or_flat.truncated",
    title="Responses are cut before they contain a rubric",
    cause="Responses are cut at the length limit ({limit} tokens) and contain no rubric item yet, "
    "so the judge finds nothing to score." + _FLAT,
    shape=f"{_SHAPE}nine of ten responses contain no rubric item and are cut at the limit",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        fixes.longer_responses(case.context),
        Remedy("Switch thinking off in the chat template"),
    ),
    source=_SOURCE,
)
NO_RUBRIC = Symptom(
    id="reward_zero_or_flat.no_rubric",
    title="Responses contain no rubric",
    cause='No rubric items are found in the texts (lines "Points: 2, Item: ..."), so the judge '
    "scores every answer 0: the model does not keep to the format." + _FLAT,
    shape=f"{_SHAPE}nine of ten responses contain no rubric item",
    ruled_out=f"{_RULED_OUT}; other reward functions, which read other texts",
    remedies=lambda _: (
        Remedy("Start from an SFT checkpoint, or put an example into the prompt"),
        Remedy("Compare a response with the parser's format in engine.rubrics.rubric"),
    ),
    source=_SOURCE,
)
CONSTANT_JUDGE = Symptom(
    id="judge_parse_failure.constant",
    title="Judge gives every answer the score {score}",
    cause="The judge gives every answer the score {score}, whatever the rubric says: it does not "
    "judge. An offline judge, a broken prompt, or failures that were turned into a number look "
    "like this." + _FLAT,
    shape=f"{_SHAPE}the judge gives nine of ten rollouts one and the same score, for at least "
    "three different rubrics",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        Remedy("Test the judge on an answer that is clearly good and one that is clearly bad"),
        Remedy("Check judge.provider and judge.model: is this the intended judge?"),
        *fixes.without_judge(case.context),
    ),
    source=f"{_SOURCE}; grubrics history: a reward of exactly -0.3 is a judge vector of zeros",
)
ONE_TEXT = Symptom(
    id="collapse_entropy_or_length.one_text",
    title="All rollouts of a group are identical",
    cause="The model writes the same text in every rollout of a group: it has lost its variety, or "
    "sampling is deterministic." + _FLAT,
    shape=f"{_SHAPE}nine of ten groups consist of one and the same text",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        _sampled_at_1(case, "texts differ again"),
        fixes.setting(
            case.context, f"{fixes.ACTOR}.entropy_coeff", 0.003, "Add an entropy bonus", ""
        ),
        fixes.earlier_checkpoint(case.onset),
    ),
    source=_SOURCE,
)
ALL_RIGHT = Symptom(
    id="reward_zero_or_flat.all_right",
    severity=Severity.WARNING,
    also=(Severity.INFO,),
    title="Every rollout gets the highest reward",
    cause="The task has become too easy: everything is right." + _FLAT,
    shape=f"{_SHAPE}all rewards are the highest possible; info for up to 20 steps, which a run "
    "that has learned its task reaches",
    ruled_out=_RULED_OUT,
    remedies=lambda _: (
        Remedy("Use harder prompts, or filter zero-std groups"),
        Remedy("Stop here and evaluate: there is nothing left to learn from this data"),
    ),
    source=_SOURCE,
)
ALL_WRONG = Symptom(
    id="reward_zero_or_flat.all_wrong",
    title="No rollout gets any reward",
    cause="Everything is scored, and nothing is right: the task is too hard for this model, or the "
    "answers are not recognized." + _FLAT,
    shape=f"{_SHAPE}all rewards are 0, or as low as the penalty for scores without spread",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        Remedy("Compare the three rollouts with their gold by hand: are they really wrong?"),
        Remedy("Start with easier prompts, or from an SFT checkpoint"),
        fixes.scaled(
            case.context,
            fixes.ROLLOUTS,
            2,
            "Sample more rollouts per prompt",
            "a better chance that one is right",
        ),
    ),
    source=f"{_SOURCE}; seed guide (reward is 0)",
)
CONSTANT = Symptom(
    id="reward_zero_or_flat.constant",
    title="Reward is always {level}",
    cause="The reward is one and the same number for different texts and questions: the reward "
    "function does not look at them." + _FLAT,
    shape=f"{_SHAPE}the reward is one number for at least three different texts",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        Remedy("Call the reward function on a good and on a bad text and compare"),
        *fixes.rubric_reward(case.context),
    ),
    source=_SOURCE,
)
EQUAL = Symptom(
    id="reward_zero_or_flat.equal",
    title="All groups are zero-std",
    cause="Rewards differ between questions, not between the rollouts of one." + _FLAT,
    shape=f"{_SHAPE}none of the other causes applies",
    ruled_out=_RULED_OUT,
    remedies=lambda case: (
        Remedy("Compare the three rollouts: do the texts differ in what the reward reads?"),
        _sampled_at_1(case, "texts differ more"),
    ),
    source=f"{_SOURCE}; seed guide (std of about 0)",
)
FLAT_GOLD_SHARE = Symptom(
    id="data_missing_or_schema.flat_gold_share",
    severity=Severity.WARNING,
    title="{share} of rollouts have gold scores that do not differ",
    cause="{count} of {total} rollouts belong to questions whose gold scores are all equal: no "
    "rubric can rank their answers as gold does, so only the bonus components are learned there.",
    shape="questions with equal gold scores in more than a tenth of at least 40 rollouts. They "
    "cost a judge call and can teach nothing: alignment with a constant is 0 whatever the rubric, "
    "while the information bonus is still paid",
    remedies=lambda _: (
        Remedy(
            "Count the useful rows, and drop the others",
            (Change("command", "data", "python -m engine.data.analyze"),),
            "at least 90% of the rows should have a useful signal",
        ),
    ),
    source="seed guide (signal_useful_pct below 90%); grubrics history (rewards of 0.267 on gold "
    "scores without variance)",
)


def check(records: RewardSteps, cut_share: CutShare) -> Iterator[Finding]:
    steps = records.steps
    stretch = _flat_stretch(steps)
    groups = sum(counts.spread()[0] for counts in stretch)
    if len(stretch) < _STEPS or groups < _GROUPS or _is_chance(steps, stretch[0].step, groups):
        yield from check_gold(records)
        return
    flat = _FlatSteps(stretch, records, cut_share)
    yield next(finding for branch in _TREE if (finding := branch(flat)) is not None)


def check_gold(records: RewardSteps) -> Iterator[Finding]:
    """Questions whose gold scores are all equal, in a run that learns from the others."""
    steps = records.steps
    total = sum(counts.golds for counts in steps)
    flat = sum(counts.gold_constant for counts in steps)
    if total < _ENOUGH or flat <= _USELESS * total:
        return
    onset = next(counts.step for counts in steps if counts.gold_constant)
    share = percent(flat / total)
    yield FLAT_GOLD_SHARE.finding(
        Case(records.context, onset), share=share, count=flat, total=total
    )


def _flat_stretch(steps: Sequence[StepCounts]) -> list[StepCounts]:
    """The newest steps in a row without any spread; a step still being written may lack groups."""
    stretch: list[StepCounts] = []
    for counts in reversed([counts for counts in steps if counts.spread()[0]]):
        if not counts.is_flat:
            break
        stretch.append(counts)
    return stretch[::-1]


def _is_chance(steps: Sequence[StepCounts], onset: int, groups: int) -> bool:
    """Whether so many groups may be flat by chance, as single ones were before ``onset``."""
    before = [counts.spread() for counts in steps if counts.step < onset]
    several, flat = sum(spread[0] for spread in before), sum(spread[1] for spread in before)
    return several > 0 and (flat / several) ** groups >= _CHANCE


class _FlatSteps:
    """The zero-std steps, and what the branches ask of them."""

    def __init__(
        self, stretch: list[StepCounts], records: RewardSteps, cut_share: CutShare
    ) -> None:
        self.stretch, self.context, self.path = stretch, records.context, records.path
        self.onset = stretch[0].step
        self.scored = sum(counts.scored for counts in stretch)
        self.judged = sum(counts.judged for counts in stretch)
        self.low = min(counts.low for counts in stretch)
        self.high = max(counts.high for counts in stretch)
        self.samples = [rollout for counts in stretch[-3:] for rollout in counts.examples]
        self.cut_share = cut_share(stretch[-1].step)

    def share(self, name: str) -> float:
        """The share of all scored rollouts that count under ``name``."""
        return sum(int(getattr(counts, name)) for counts in self.stretch) / max(1, self.scored)

    def sampled(self, test: Callable[[Rollout], bool]) -> float:
        """The share of the rollouts kept as examples, for tests that cost more."""
        return sum(map(test, self.samples)) / len(self.samples) if self.samples else 0.0

    def finding(
        self,
        symptom: Symptom,
        *,
        severity: Severity | None = None,
        show: Callable[[Rollout], bool] = lambda rollout: True,
        **values: Any,
    ) -> Finding:
        level = f"{self.low:.3g}" if self.low == self.high else f"{self.low:.3g} to {self.high:.3g}"
        return symptom.finding(
            Case(self.context, self.onset),
            *(rollout.evidence(self.path) for rollout in _three(self.samples, show)),
            severity=severity,
            level=level,
            steps=len(self.stretch),
            onset=self.onset,
            scored=self.scored,
            **values,
        )


def _three(samples: Sequence[Rollout], test: Callable[[Rollout], bool]) -> list[Rollout]:
    """Two rollouts of one group and one of another, as far as there are."""
    fitting = [rollout for rollout in samples if test(rollout)] or list(samples)
    if not fitting:
        return []
    same = [rollout for rollout in fitting if rollout.group == fitting[0].group][:2]
    other = [rollout for rollout in fitting if rollout.group != fitting[0].group]
    return [*same, *other[: 3 - len(same)]]


def _empty(flat: _FlatSteps) -> Finding | None:
    share = flat.share("empty")
    if share < _MOST:
        return None
    return flat.finding(EMPTY, share=percent(share), show=lambda rollout: not rollout.text.strip())


def _flat_gold(flat: _FlatSteps) -> Finding | None:
    if not any(counts.golds for counts in flat.stretch) or flat.share("gold_constant") < _MOST:
        return None
    return flat.finding(FLAT_GOLD, show=lambda rollout: rollout.gold_is_constant)


def _no_rubric(flat: _FlatSteps) -> Finding | None:
    """Only for rubrics: another reward function reads other texts."""
    if not flat.judged or flat.sampled(lambda rollout: not rollout.has_items) < _MOST:
        return None
    limit = flat.context.get(fixes.RESPONSE)
    is_cut = isinstance(limit, int) and limit < 16
    if flat.cut_share is not None:
        is_cut = flat.cut_share >= _MOST
    return (
        flat.finding(TRUNCATED, limit=limit or "not known") if is_cut else flat.finding(NO_RUBRIC)
    )


def _constant_judge(flat: _FlatSteps) -> Finding | None:
    values = set().union(*(counts.judge_values for counts in flat.stretch))
    texts = {rollout.text for rollout in flat.samples}
    if not flat.judged or flat.share("judge_constant") < _MOST or len(values) > 1:
        return None
    if len(texts) < 3 or flat.sampled(lambda rollout: rollout.has_items) < _MOST:
        return None
    score = f"{next(iter(values)):.3g}"
    return flat.finding(CONSTANT_JUDGE, score=score, show=lambda rollout: rollout.judge_is_constant)


def _one_text(flat: _FlatSteps) -> Finding | None:
    groups = sum(counts.spread()[0] for counts in flat.stretch)
    same = sum(counts.spread()[2] for counts in flat.stretch)
    return None if same < _MOST * groups else flat.finding(ONE_TEXT)


def _all_right(flat: _FlatSteps) -> Finding | None:
    known = flat.context.reward_range
    if known is None or flat.low < known[1] - 0.05 * (known[1] - known[0]):
        return None
    is_long = len(flat.stretch) >= _TOP_STEPS
    return flat.finding(ALL_RIGHT, severity=None if is_long else Severity.INFO)


def _all_wrong(flat: _FlatSteps) -> Finding | None:
    penalty = flat.context.get("reward_config.lambda_defense", float("inf"))
    at_bottom = flat.context.reward_range is not None and flat.high <= -penalty
    nothing = flat.low == flat.high == 0.0
    return flat.finding(ALL_WRONG) if nothing or at_bottom else None


def _equal(flat: _FlatSteps) -> Finding:
    is_constant = flat.low == flat.high and len({rollout.text for rollout in flat.samples}) > 2
    return flat.finding(CONSTANT if is_constant else EQUAL)


_TREE: tuple[Callable[[_FlatSteps], Finding | None], ...] = (
    _empty,
    _flat_gold,
    _no_rubric,
    _constant_judge,
    _one_text,
    _all_right,
    _all_wrong,
    _equal,
)
