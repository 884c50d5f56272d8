"""Rules for zero-std groups: causes that look alike in metrics but need opposite fixes.

For steps in which every group is zero-std, these are checked in order: empty responses; gold scores
without variance; texts without a rubric (truncated, or in another format); a judge that gives all
answers one score; identical rollouts; everything right; everything wrong. If none applies, the
finding says only that the rewards are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.base.jsonl import number
from engine.base.quantities import format_number
from engine.doctor.metrics.logged_run import percent
from engine.doctor.rewards.rollout_record import Rollout
from engine.doctor.rewards.step_counts import RewardSteps, StepCounts
from engine.run import fixes
from engine.run.finding import Finding, Severity
from engine.run.finding_kind import Case
from engine.run.finding_kind_file import FindingKinds
from engine.run.history.rollout_dump import Dumps, read_answers

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

KINDS = FindingKinds(__file__)


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
    yield KINDS["data_missing_or_schema.flat_gold_share"].finding(
        case, share=share, count=flat, total=total
    )


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
        key: str,
        show: Callable[[Rollout], bool] = lambda rollout: True,
        severity: Severity | None = None,
        **values: Any,
    ) -> Finding:
        """Return the finding with two rollouts of one group and one of another as evidence."""
        low, high = format_number(self.low, 3), format_number(self.high, 3)
        level = low if self.low == self.high else f"{low} to {high}"
        shown = [rollout for rollout in self.examples if show(rollout)] or self.examples
        same = [rollout for rollout in shown if rollout.record.group == shown[0].record.group][:2]
        different = [rollout for rollout in shown if rollout.record.group != shown[0].record.group]
        return KINDS[key].finding(
            Case(self.context, self.steps[0].step),
            *(rollout.evidence(self.path) for rollout in [*same, *different[: 3 - len(same)]]),
            severity=severity,
            level=level,
            steps=len(self.steps),
            trained=sum(counts.trained for counts in self.steps),
            **values,
        )


def _explain(stretch: _Stretch) -> Finding:
    if (empty := stretch.share("empty")) >= _MOST:
        return stretch.finding(
            "collapse_entropy_or_length.empty",
            lambda rollout: not rollout.record.text.strip(),
            share=percent(empty),
        )
    if stretch.share("gold_constant") >= _MOST:
        return stretch.finding(
            "data_missing_or_schema.flat_gold", lambda rollout: rollout.gold_is_constant
        )
    if stretch.is_judged and (finding := _explain_judged(stretch)) is not None:
        return finding
    spreads = [counts.spread() for counts in stretch.steps]
    if sum(same for _, _, same in spreads) >= _MOST * sum(groups for groups, _, _ in spreads):
        return stretch.finding("collapse_entropy_or_length.one_text")
    low, high, limits = stretch.low, stretch.high, stretch.context.reward_range
    if limits is not None and low >= limits[1] - 0.05 * (limits[1] - limits[0]):
        severity = None if len(stretch.steps) >= _TOP_STEPS else Severity.INFO
        return stretch.finding("reward_zero_or_flat.all_right", severity=severity)
    penalty = number(stretch.context.get("reward_config.lambda_defense"))
    is_lowest = limits is not None and penalty is not None and high <= -penalty
    if low == high == 0.0 or is_lowest:
        right, total = _count_right(stretch)
        if right >= max(_FEWEST_RIGHT, _USELESS * total):
            return stretch.finding("reward_function_error.pays_nothing", right=right, total=total)
        return stretch.finding("reward_zero_or_flat.all_wrong")
    is_constant = low == high and len({rollout.record.text for rollout in stretch.examples}) > 2
    return stretch.finding(
        "reward_zero_or_flat.constant" if is_constant else "reward_zero_or_flat.equal"
    )


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
            return stretch.finding("reward_zero_or_flat.truncated", limit=limit or "not known")
        return stretch.finding("reward_zero_or_flat.no_rubric")
    scores = set().union(*(counts.judge_values for counts in stretch.steps))
    if stretch.share("judge_constant") < _MOST or len(scores) > 1:
        return None
    texts = {rollout.record.text for rollout in stretch.examples}
    if len(texts) < 3 or stretch.share_of_examples(lambda rollout: rollout.has_items) < _MOST:
        return None
    return stretch.finding(
        "judge_parse_failure.constant",
        lambda rollout: rollout.judge_is_constant,
        score=f"{next(iter(scores)):.3g}",
    )
