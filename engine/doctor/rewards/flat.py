"""Rules for zero-std groups: causes that look alike in metrics but need opposite fixes.

For steps in which every group is zero-std, these are checked in order: empty responses; gold scores
without variance; texts without a rubric (truncated, or in another format); a judge that gives all
answers one score; identical rollouts; everything right; everything wrong. If none applies, the
finding says only that the rewards are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.rollout_record import Rollout
from engine.doctor.rewards.step_counts import RewardSteps, StepCounts
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Change, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
from engine.history.rollout_dump import Dumps, read_answers

CutShare = Callable[[int], float | None]
"""The share of a step's responses that were truncated at the length limit; None if unknown."""

_STEPS = 2
_GROUPS = 6
_MOST = 0.9
_TOP_STEPS = 20
_CHANCE = 1e-4
_USELESS = 0.1
_ENOUGH = 40
_FEWEST_RIGHT = 3
_SOURCE = "decision tree on the reward records"
_FLAT = (
    " All rollouts of a group have the same reward (here {level}) in the newest {steps} steps, "
    "since step {onset}, so every advantage is 0: {trained} rollouts trained nothing."
)


def _cause_of_zero_std(
    id: str,
    title: str,
    cause: str,
    shape: str,
    remedies: Callable[[Case], Iterable[Remedy]],
    source: str = "",
    **fields: Any,
) -> Symptom:
    return Symptom(
        id=id,
        title=title,
        cause=f"{cause}{_FLAT}",
        shape="in at least the newest 2 steps, all groups (at least 6) are zero-std, and " + shape,
        ruled_out="zero-std groups that were so frequent before that these may be chance (1 in "
        "10,000)" + fields.pop("ruled_out", ""),
        remedies=remedies,
        source=f"{_SOURCE}; {source}" if source else _SOURCE,
        **fields,
    )


EMPTY = _cause_of_zero_std(
    "collapse_entropy_or_length.empty",
    "Responses are empty",
    "{share} of the responses contain no text: the model stops immediately.",
    "nine of ten responses are empty",
    lambda case: (
        Remedy("Check the prompt and the end token: does the model start a response?"),
        fixes.lower_rate(case.context),
        *fixes.earlier_checkpoint(case),
    ),
)
FLAT_GOLD = _cause_of_zero_std(
    "data_missing_or_schema.flat_gold",
    "Gold scores do not differ",
    "The gold scores of each question are all equal, so no rubric can rank its answers as the "
    "gold scores do: alignment is 0 for any response.",
    "nine of ten rollouts belong to questions with equal gold scores",
    lambda _: (
        Remedy("Drop questions whose gold scores are equal, or compute the scores again"),
        Remedy("Count the useful rows: python -m engine.data.analyze"),
    ),
)
TRUNCATED = _cause_of_zero_std(
    "reward_zero_or_flat.truncated",
    "Responses are truncated before they contain a rubric",
    "Responses are truncated at the length limit ({limit} tokens) and contain no rubric item yet, "
    "so the judge finds nothing to score.",
    "nine of ten responses contain no rubric item and are truncated at the limit",
    lambda case: (
        fixes.longer_responses(case.context),
        *fixes.no_thinking(case.context),
    ),
)
NO_RUBRIC = _cause_of_zero_std(
    "reward_zero_or_flat.no_rubric",
    "Responses contain no rubric",
    'The texts contain no rubric items (lines "Points: 2, Item: ..."), so the judge scores every '
    "answer 0: the model does not follow the format.",
    "nine of ten responses contain no rubric item",
    lambda _: (
        Remedy("Start from an SFT checkpoint, or put an example into the prompt"),
        Remedy("Compare a response with the parser's format in engine.rubrics"),
    ),
    ruled_out="; other reward functions, which read other texts",
)
CONSTANT_JUDGE = _cause_of_zero_std(
    "judge_parse_failure.constant",
    "Judge gives every answer the score {score}",
    "The judge gives every answer the score {score} for any rubric: it does not judge. An offline "
    "judge, a broken prompt, or failures that were turned into a number look like this.",
    "the judge gives nine of ten rollouts the same score, for at least three different rubrics",
    lambda case: (
        Remedy("Test the judge on an answer that is clearly good and one that is clearly bad"),
        Remedy("Check judge.provider and judge.model: is this the intended judge?"),
        *fixes.without_judge(case.context),
    ),
    "grubrics history: a reward of exactly -0.3 is a judge vector of zeros",
)
ONE_TEXT = _cause_of_zero_std(
    "collapse_entropy_or_length.one_text",
    "All rollouts of a group are identical",
    "The model writes the same text in every rollout of a group: the policy has collapsed, or "
    "sampling is deterministic.",
    "in nine of ten groups all texts are the same",
    lambda case: (
        fixes.sample_at_1(case.context, "texts differ again"),
        fixes.setting(
            case.context, f"{fixes.ACTOR}.entropy_coeff", 0.003, "Add an entropy bonus", ""
        ),
        *fixes.earlier_checkpoint(case),
    ),
)
ALL_RIGHT = _cause_of_zero_std(
    "reward_zero_or_flat.all_right",
    "Every rollout gets the highest reward",
    "The task has become too easy: every response is right.",
    "all rewards are the highest possible; info for up to 20 steps, which a run that has learned "
    "its task reaches",
    lambda _: (
        Remedy("Use harder prompts, or filter zero-std groups"),
        Remedy("Stop here and evaluate: there is nothing left to learn from this data"),
    ),
    severity=Severity.WARNING,
    also=(Severity.INFO,),
)
ALL_WRONG = _cause_of_zero_std(
    "reward_zero_or_flat.all_wrong",
    "No rollout gets any reward",
    "All responses are scored, but none is right: the task is too hard for this model, or the "
    "answers are not recognized.",
    "all rewards are 0, or as low as the penalty for scores without variance",
    lambda case: (
        Remedy("Compare the three rollouts with the right answers by hand: are they really wrong?"),
        Remedy("Start with easier prompts, or from an SFT checkpoint"),
        fixes.scaled(
            case.context,
            fixes.ROLLOUTS,
            2,
            "Sample more rollouts per prompt",
            "a better chance that one is right",
        ),
    ),
    "seed guide (reward is 0)",
)
PAYS_NOTHING = _cause_of_zero_std(
    "reward_function_error.pays_nothing",
    "Right answers get no reward",
    "{right} of {total} responses of the newest recorded step equal their ground truth, and none "
    "gets a reward: the reward function does not recognize them.",
    "all rewards are 0, and a tenth of the recorded responses, at least 3, equal their truth",
    lambda case: (
        Remedy("Call the reward function with one of these answers and its ground truth"),
        *fixes.rubric_reward(case.context),
    ),
    "rollouts and their ground truth",
)
CONSTANT = _cause_of_zero_std(
    "reward_zero_or_flat.constant",
    "Reward is always {level}",
    "The reward is the same number for different texts and questions: the reward function does not "
    "read them.",
    "the reward is one number for at least three different texts",
    lambda case: (
        Remedy("Call the reward function on a good and on a bad text and compare"),
        *fixes.rubric_reward(case.context),
    ),
)
EQUAL = _cause_of_zero_std(
    "reward_zero_or_flat.equal",
    "All groups are zero-std",
    "Rewards differ between questions, but not between the rollouts of one question.",
    "none of the other causes applies",
    lambda case: (
        Remedy("Compare the three rollouts: do the texts differ in what the reward reads?"),
        fixes.sample_at_1(case.context, "texts differ more"),
    ),
    "seed guide (std of about 0)",
)
FLAT_GOLD_SHARE = Symptom(
    id="data_missing_or_schema.flat_gold_share",
    severity=Severity.WARNING,
    title="{share} of rollouts have gold scores that do not differ",
    cause="{count} of {total} rollouts belong to questions whose gold scores are all equal: no "
    "rubric can rank their answers like the gold scores, so only the bonus components can be "
    "learned from them.",
    shape="questions with equal gold scores in more than a tenth of at least 40 rollouts. They "
    "cost a judge call and teach nothing: alignment with a constant is 0 for any rubric, while the "
    "information bonus is still paid",
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
    stretch = _zero_std_stretch(steps)
    groups = sum(counts.spread()[0] for counts in stretch)
    if len(stretch) < _STEPS or groups < _GROUPS or _is_chance(steps, stretch[0].step, groups):
        yield from check_gold(records)
    else:
        yield _explain(_Stretch(stretch, records, cut_share))


def check_gold(records: RewardSteps) -> Iterator[Finding]:
    """Find questions whose gold scores are all equal, in a run that learns from the others."""
    steps = records.steps
    total = sum(counts.golds for counts in steps)
    flat = sum(counts.gold_constant for counts in steps)
    if total < _ENOUGH or flat <= _USELESS * total:
        return
    onset = next(counts.step for counts in steps if counts.gold_constant)
    case, share = Case(records.context, onset), percent(flat / total)
    yield FLAT_GOLD_SHARE.finding(case, share=share, count=flat, total=total)


def _zero_std_stretch(steps: Sequence[StepCounts]) -> list[StepCounts]:
    """Return the newest consecutive zero-std steps; steps without a complete group are left out."""
    stretch: list[StepCounts] = []
    for counts in reversed([counts for counts in steps if counts.spread()[0]]):
        if not counts.is_flat:
            break
        stretch.append(counts)
    return stretch[::-1]


def _is_chance(steps: Sequence[StepCounts], onset: int, groups: int) -> bool:
    """Return whether so many groups may be zero-std by chance, at the rate before ``onset``."""
    before = [counts.spread() for counts in steps if counts.step < onset]
    several, flat = sum(spread[0] for spread in before), sum(spread[1] for spread in before)
    return several > 0 and (flat / several) ** groups >= _CHANCE


class _Stretch:
    """Consecutive zero-std steps: their totals, and their newest rollouts as examples."""

    def __init__(self, steps: list[StepCounts], records: RewardSteps, cut_share: CutShare) -> None:
        self.steps, self.context, self.path = steps, records.context, records.path
        self.scored = sum(counts.scored for counts in steps)
        self.is_judged = any(counts.judged for counts in steps)
        self.low = min(counts.low for counts in steps)
        self.high = max(counts.high for counts in steps)
        self.examples = [rollout for counts in steps[-3:] for rollout in counts.examples]
        self.cut_share = cut_share(steps[-1].step)

    def share(self, name: str) -> float:
        """Return the share of all scored rollouts that count under ``name``."""
        return sum(int(getattr(counts, name)) for counts in self.steps) / max(1, self.scored)

    def share_of_examples(self, test: Callable[[Rollout], bool]) -> float:
        """Return the share of the examples, for tests that are too slow for all rollouts."""
        return sum(map(test, self.examples)) / len(self.examples) if self.examples else 0.0

    def finding(
        self,
        symptom: Symptom,
        show: Callable[[Rollout], bool] = lambda rollout: True,
        severity: Severity | None = None,
        **values: Any,
    ) -> Finding:
        """Return the finding with two rollouts of one group and one of another as evidence."""
        level = f"{self.low:.3g}" if self.low == self.high else f"{self.low:.3g} to {self.high:.3g}"
        shown = [rollout for rollout in self.examples if show(rollout)] or self.examples
        same = [rollout for rollout in shown if rollout.group == shown[0].group][:2]
        different = [rollout for rollout in shown if rollout.group != shown[0].group]
        return symptom.finding(
            Case(self.context, self.steps[0].step),
            *(rollout.evidence(self.path) for rollout in [*same, *different[: 3 - len(same)]]),
            severity=severity,
            level=level,
            steps=len(self.steps),
            onset=self.steps[0].step,
            trained=sum(counts.trained for counts in self.steps),
            **values,
        )


def _explain(stretch: _Stretch) -> Finding:
    if (empty := stretch.share("empty")) >= _MOST:
        return stretch.finding(
            EMPTY, lambda rollout: not rollout.text.strip(), share=percent(empty)
        )
    if stretch.share("gold_constant") >= _MOST:
        return stretch.finding(FLAT_GOLD, lambda rollout: rollout.gold_is_constant)
    if stretch.is_judged and (finding := _explain_judged(stretch)) is not None:
        return finding
    spreads = [counts.spread() for counts in stretch.steps]
    if sum(same for _, _, same in spreads) >= _MOST * sum(groups for groups, _, _ in spreads):
        return stretch.finding(ONE_TEXT)
    low, high, limits = stretch.low, stretch.high, stretch.context.reward_range
    if limits is not None and low >= limits[1] - 0.05 * (limits[1] - limits[0]):
        severity = None if len(stretch.steps) >= _TOP_STEPS else Severity.INFO
        return stretch.finding(ALL_RIGHT, severity=severity)
    penalty = stretch.context.get("reward_config.lambda_defense", float("inf"))
    if low == high == 0.0 or (limits is not None and high <= -penalty):
        right, total = _count_right(stretch)
        if right >= max(_FEWEST_RIGHT, _USELESS * total):
            return stretch.finding(PAYS_NOTHING, right=right, total=total)
        return stretch.finding(ALL_WRONG)
    is_constant = low == high and len({rollout.text for rollout in stretch.examples}) > 2
    return stretch.finding(CONSTANT if is_constant else EQUAL)


def _count_right(stretch: _Stretch) -> tuple[int, int]:
    """Return how many responses of the newest dump equal their ground truth, and of how many."""
    dumps = Dumps(Path(stretch.path).parent / "rollouts")
    newest = [path for counts in stretch.steps if (path := dumps.at(counts.step))][-1:]
    answers = [answer for path in newest for answer in read_answers(path)]
    right = sum(text.strip().casefold() == truth.strip().casefold() for text, truth in answers)
    return right, len(answers)


def _explain_judged(stretch: _Stretch) -> Finding | None:
    """Check the rubrics and the judge's scores: another reward function reads other texts."""
    if stretch.share_of_examples(lambda rollout: not rollout.has_items) >= _MOST:
        limit = stretch.context.get(fixes.RESPONSE)
        is_cut = isinstance(limit, int) and limit < 16
        if stretch.cut_share is not None:
            is_cut = stretch.cut_share >= _MOST
        if is_cut:
            return stretch.finding(TRUNCATED, limit=limit or "not known")
        return stretch.finding(NO_RUBRIC)
    scores = set().union(*(counts.judge_values for counts in stretch.steps))
    if stretch.share("judge_constant") < _MOST or len(scores) > 1:
        return None
    texts = {rollout.text for rollout in stretch.examples}
    if len(texts) < 3 or stretch.share_of_examples(lambda rollout: rollout.has_items) < _MOST:
        return None
    return stretch.finding(
        CONSTANT_JUDGE,
        lambda rollout: rollout.judge_is_constant,
        score=f"{next(iter(scores)):.3g}",
    )
