"""The reward alone, once more, over what a run recorded of a step: no model, no training.

It says whether a failure lies in the reward (judge, gold, reward function) or in what made the
rollouts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from engine.base.errors import UsageError
from engine.data.contract import Row, read_rows
from engine.history.reward_records import RewardRecords, Verdict, text_of
from engine.history.train_log import read_steps
from engine.host.surroundings import edited_files
from engine.judge.settings import JudgeSettings
from engine.launch.rerun import recipe_of, require_here
from engine.recipe.executed import require_own_code
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge, make_scorer
from engine.reward.custom import question_of
from engine.reward.scorer import Rollout
from engine.reward.scoring import RolloutScore
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state

Outcome = Literal["fails again", "fails now", "differs", "works now", "same"]
_WORST_FIRST: tuple[Outcome, ...] = get_args(Outcome)
_SAME = 1e-6


@dataclass(frozen=True)
class RecordedRollout:
    """A rollout as it is scored now, and the reward record of the run."""

    rollout: Rollout
    then: Verdict


@dataclass(frozen=True)
class Recorded:
    """A step that can be scored again. ``judge`` is None where a function of the recipe scores.

    ``gone`` counts the rollouts whose question is in no training file any more; ``edited`` are the
    files of the data and the reward that are not what the run was launched with: what they are now
    is scored with.
    """

    run: str
    step: int
    why: str
    recipe: Recipe
    rollouts: tuple[RecordedRollout, ...]
    gone: int
    judge: JudgeSettings | None
    edited: tuple[str, ...] = ()


@dataclass(frozen=True)
class Again:
    """One rollout, scored twice. ``moved`` names what differs: gold, judge scores or the formula;
    ``failed`` is why it has no reward now."""

    group: str
    rollout: int | None
    question_id: str
    then: float | None
    now: float | None
    moved: str | None
    failed_then: str | None
    failed: str | None

    @property
    def outcome(self) -> Outcome:
        if self.then is None:
            return "fails again" if self.now is None else "works now"
        if self.now is None:
            return "fails now"
        return "differs" if self.moved else "same"


@dataclass(frozen=True)
class Replay:
    """All of a step. ``outcome`` is the worst of its rollouts, ``text`` what that means."""

    outcome: Outcome
    text: str
    rollouts: tuple[Again, ...]

    @property
    def is_clean(self) -> bool:
        return self.outcome in ("same", "works now")

    def to_json(self) -> dict[str, Any]:
        told = [{**asdict(one), "outcome": one.outcome} for one in self.rollouts]
        return {"outcome": self.outcome, "text": self.text, "rollouts": told}


def recorded(run: RunDir, step: int | None = None) -> Recorded:
    """What would be scored again. UsageError where nothing can be."""
    require_here(run)
    recipe, found = recipe_of(run), pick_step(run, step)
    require_own_code(recipe)
    if not recipe.kind.has_rollouts:
        raise UsageError(f"run '{run.id}': {recipe.kind.title} has no rewards")
    if found is None:
        raise UsageError(f"run '{run.id}': no reward of a training step is recorded")
    rows = _by_question(recipe)
    pairs = [(one, _row_of(one, rows.get(one.question_id, []))) for one in found.records]
    rollouts = tuple(
        RecordedRollout(Rollout.of_row(text_of(then.place.read()), row), then)
        for then, row in pairs
        if row is not None
    )
    if not rollouts:
        files = recipe.get("data.train_files")
        raise UsageError(f"{files}: none of the questions of step {found.step} is in it")
    judge = JudgeSettings(**recipe.section("judge")) if asks_judge(recipe) else None
    gone = len(pairs) - len(rollouts)
    manifest = run.read_manifest()
    scored_with = {key: value for key, value in manifest.items() if key != "model"}
    edited = tuple(edited_files(scored_with))
    return Recorded(run.id, found.step, found.why, recipe, rollouts, gone, judge, edited)


def replay(plan: Recorded, env: Mapping[str, str]) -> Replay:
    """Score every rollout as the run did. ``env`` holds the judge's credentials; UsageError
    without them, and for a reward function that is not there."""
    scores = asyncio.run(_scores(plan, env))
    found = tuple(
        _compared(one.then, score) for one, score in zip(plan.rollouts, scores, strict=True)
    )
    outcome = min((one.outcome for one in found), key=_WORST_FIRST.index)
    return Replay(outcome, _meaning(outcome, found), found)


async def _scores(plan: Recorded, env: Mapping[str, str]) -> list[RolloutScore]:
    scorer = make_scorer(plan.recipe, env)
    try:
        scored = await scorer.score_all([each.rollout for each in plan.rollouts])
        return [each.score for each in scored]
    finally:
        await scorer.aclose()


def _by_question(recipe: Recipe) -> dict[str, list[Row]]:
    files = recipe.get("data.train_files")
    found: dict[str, list[Row]] = {}
    for name in files if isinstance(files, list) else [files]:
        for row in read_rows(Path(str(name))):
            if row.get("extra_info"):
                found.setdefault(question_of(row["extra_info"]), []).append(row)
    return found


def _row_of(then: Verdict, rows: list[Row]) -> Row | None:
    """One question may stand in several rows, with answers of their own."""
    same = (row for row in rows if tuple(row["extra_info"].get("gold_scores") or ()) == then.gold)
    return next(same, rows[0] if rows else None)


def _compared(then: Verdict, now: RolloutScore) -> Again:
    return Again(
        *then.key,
        then.question_id,
        then.reward,
        now.reward,
        _moved(then, now),
        then.error.kind if then.error else None,
        f"{now.error.kind}: {now.error.message}" if now.error else None,
    )


def _moved(then: Verdict, now: RolloutScore) -> str | None:
    """The first of what the reward is made from that is not what it was."""
    if then.reward is None or now.reward is None or abs(then.reward - now.reward) <= _SAME:
        return None
    if now.judge_scores is None:
        return "reward function"
    if not _equal(then.gold, now.gold_scores):
        return "gold"
    return "formula" if _equal(then.judge, now.judge_scores) else "judge scores"


def _equal(left: Iterable[float | None], right: Iterable[float | None]) -> bool:
    return [*left] == [*right]


def _meaning(outcome: Outcome, found: tuple[Again, ...]) -> str:
    those = [one for one in found if one.outcome == outcome]
    count = f"{len(those)} of {len(found)}"
    if outcome == "same":
        return (
            f"all {len(found)} rewards come out the same: what is wrong lies not in the reward "
            "but in what makes the rollouts, or trains on them"
        )
    if outcome == "works now":
        return (
            f"{count} failed then and work now: the cause has passed or was mended (the judge or "
            "its network, credentials, or too many calls at once)"
        )
    if outcome == "differs":
        moved = Counter(one.moved for one in those if one.moved)
        names = ", ".join(f"{name} ({number})" for name, number in moved.most_common())
        return f"{count} rewards differ, by {names}: {_WHY[moved.most_common(1)[0][0]]}"
    kinds = Counter(one.failed.partition(":")[0] for one in those if one.failed)
    names = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    if outcome == "fails again":
        return (
            f"{count} rewards fail again ({names}) without model or training: the cause is the "
            "reward's own"
        )
    return (
        f"{count} rewards fail now that succeeded in the run ({names}): "
        "fix that, then rescore again"
    )


_WHY = {
    "gold": "the training file is not what the run trained on",
    "judge scores": "the judge does not answer the same twice, so rewards hold its chance",
    "formula": "the code of the reward is not what it was",
    "reward function": "the reward function is not what it was, or depends on chance",
}


@dataclass(frozen=True)
class PickedStep:
    """``why`` is half a sentence; ``records`` are those of the newest attempt."""

    step: int
    why: str
    records: tuple[Verdict, ...]


def pick_step(run: RunDir, asked: int | None = None) -> PickedStep | None:
    """The step that was asked for; else the one that failed first, or the first one at all.

    None where no reward of a training step is recorded; UsageError where none of ``asked`` is.
    """
    attempts = run.attempts()
    records = RewardRecords(attempts[-1].reward) if attempts else None
    if records is None:
        return None
    records.poll()
    steps = sorted(records.steps("train"))
    if not steps:
        return None
    if asked is not None and asked not in steps:
        near = min(steps, key=lambda one: abs(one - asked))
        raise UsageError(f"run '{run.id}': step {asked} has no recorded rewards; {near} has")
    step, why = _failing(run, records, steps) if asked is None else (asked, "as asked")
    return PickedStep(step, why, tuple(records.at("train", step).values()))


def _failing(run: RunDir, records: RewardRecords, steps: Sequence[int]) -> tuple[int, str]:
    for step in steps:
        failed = [one for one in records.at("train", step).values() if one.error is not None]
        if failed:
            return step, f"the first step with a reward that failed ({len(failed)} did)"
    logged = max((one.step for one in read_steps(run.train_log)), default=0)
    if observed_state(run).state == "failed" and steps[-1] > logged:
        return steps[-1], "the step in which the run failed"
    return steps[0], "no step failed, so the first one"
