"""Rescore the recorded rollouts of a step: the reward alone, without model or training.

This shows whether a failure is in the reward (judge, gold scores, reward function) or in what made
the rollouts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from msgspec.structs import replace

from engine.base.errors import UsageError
from engine.config.executed import require_own_code
from engine.config.load import Config
from engine.config.scoring import asks_judge, make_scorer
from engine.data.contract import Row, read_rows
from engine.launch.rerun import config_of, require_launch_folder
from engine.reward.judge.settings import JudgeSettings
from engine.reward.scorer import Rollout
from engine.reward.scoring import question_of
from engine.run.history.reward_records import RewardRecord, RewardRecords
from engine.run.history.train_log import read_steps
from engine.run.host.surroundings import edited_files
from engine.run.run import Run
from engine.run.state import observed_state

Outcome = Literal["fails again", "fails now", "differs", "works now", "same"]
_WORST_FIRST: tuple[Outcome, ...] = get_args(Outcome)
_SAME = 1e-6


@dataclass(frozen=True)
class Recorded:
    """A step that can be rescored: its rollouts, each with the reward record of the run.

    ``judge`` is None if a reward function of the config scores. ``gone`` counts the rollouts whose
    question is no longer in a training file. ``edited`` are the files of the data and the reward
    that changed since the launch: rescoring uses the new content.
    """

    run: str
    step: int
    why: str
    config: Config
    rollouts: tuple[tuple[Rollout, RewardRecord], ...]
    gone: int
    judge: JudgeSettings | None
    edited: tuple[str, ...] = ()


@dataclass(frozen=True)
class Again:
    """One rollout, scored twice. ``moved`` names what differs: gold, judge scores or the formula;
    ``failed`` says why it has no reward now."""

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
    """All rollouts of a step. ``outcome`` is the worst one, ``text`` explains it."""

    outcome: Outcome
    text: str
    rollouts: tuple[Again, ...]

    @property
    def is_clean(self) -> bool:
        return self.outcome in ("same", "works now")

    def to_json(self) -> dict[str, object]:
        rollouts = [{**asdict(rollout), "outcome": rollout.outcome} for rollout in self.rollouts]
        return {"outcome": self.outcome, "text": self.text, "rollouts": rollouts}


def recorded(run: Run, step: int | None = None) -> Recorded:
    """Return the step to rescore. UsageError if there is none."""
    require_launch_folder(run)
    config, picked = config_of(run), pick_step(run, step)
    require_own_code(config)
    if not config.kind.has_rollouts:
        raise UsageError(f"run '{run.id}': {config.kind.title} has no rewards")
    if picked is None:
        raise UsageError(f"run '{run.id}': no reward of a training step is recorded")
    rows = _rows_by_question(config)
    pairs = [(then, _row_of(then, rows.get(then.question_id, []))) for then in picked.records]
    rollouts = tuple(
        (Rollout.of_row(then.text, row), then) for then, row in pairs if row is not None
    )
    if not rollouts:
        files = config.get("data.train_files")
        raise UsageError(f"{files}: contains none of the questions of step {picked.step}")
    judge = JudgeSettings(**config.section("judge")) if asks_judge(config) else None
    gone = len(pairs) - len(rollouts)
    edited = tuple(edited_files(replace(run.read_manifest(), model={})))
    return Recorded(run.id, picked.step, picked.why, config, rollouts, gone, judge, edited)


def replay(plan: Recorded, env: Mapping[str, str]) -> Replay:
    """Score every rollout as the run did. ``env`` holds the judge's credentials.

    UsageError if credentials or the reward function are missing.
    """
    scores = asyncio.run(_scores(plan, env))
    pairs = ((then, now) for (_, then), now in zip(plan.rollouts, scores, strict=True))
    rescored = tuple(
        Again(
            *then.key,
            then.question_id,
            then.reward,
            now.reward,
            _moved(then, now),
            then.error.kind if then.error else None,
            f"{now.error.kind}: {now.error.message}" if now.error else None,
        )
        for then, now in pairs
    )
    outcome = min((rollout.outcome for rollout in rescored), key=_WORST_FIRST.index)
    return Replay(outcome, _meaning(outcome, rescored), rescored)


async def _scores(plan: Recorded, env: Mapping[str, str]) -> list[RewardRecord]:
    scorer = make_scorer(plan.config, env)
    try:
        scored = await scorer.score_all([rollout for rollout, _ in plan.rollouts])
        return [rollout.record for rollout in scored]
    finally:
        await scorer.aclose()


def _rows_by_question(config: Config) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for name in config.listed("data.train_files"):
        for row in read_rows(Path(str(name))):
            if row.get("extra_info"):
                rows.setdefault(question_of(row["extra_info"]), []).append(row)
    return rows


def _row_of(then: RewardRecord, rows: list[Row]) -> Row | None:
    """Several rows may have the same question with different answers: the gold scores decide."""
    gold = then.gold_scores
    same = (row for row in rows if tuple(row["extra_info"].get("gold_scores") or ()) == gold)
    return next(same, rows[0] if rows else None)


def _moved(then: RewardRecord, now: RewardRecord) -> str | None:
    """The first input of the reward that differs."""
    if then.reward is None or now.reward is None or abs(then.reward - now.reward) <= _SAME:
        return None
    if now.judge_scores is None:
        return "reward function"
    if then.gold_scores != now.gold_scores:
        return "gold"
    return "formula" if then.judge_scores == now.judge_scores else "judge scores"


def _meaning(outcome: Outcome, rescored: tuple[Again, ...]) -> str:
    rollouts = [rollout for rollout in rescored if rollout.outcome == outcome]
    count = f"{len(rollouts)} of {len(rescored)}"
    if outcome == "same":
        return (
            f"all {len(rescored)} rewards equal the recorded ones: a problem of this run would be "
            "in generation or training, not in the reward"
        )
    if outcome == "works now":
        return (
            f"{count} failed in the run and work now: the cause is over or was fixed (the judge "
            "or its network, credentials, or too many simultaneous calls)"
        )
    if outcome == "differs":
        moved = Counter(rollout.moved for rollout in rollouts if rollout.moved)
        names = ", ".join(f"{name} ({number})" for name, number in moved.most_common())
        return f"{count} rewards differ, by {names}: {_WHY[moved.most_common(1)[0][0]]}"
    kinds = Counter(rollout.failed.partition(":")[0] for rollout in rollouts if rollout.failed)
    names = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    if outcome == "fails again":
        return (
            f"{count} rewards fail again ({names}) without model or training: the cause is in the "
            "reward"
        )
    return (
        f"{count} rewards fail now but succeeded in the run ({names}): fix that, then rescore again"
    )


_WHY = {
    "gold": "the training file is not the one that the run trained on",
    "judge scores": "the judge gives different answers to the same question, so rewards are noisy",
    "formula": "the code of the reward has changed",
    "reward function": "the reward function has changed, or is random",
}


@dataclass(frozen=True)
class PickedStep:
    """A step of the newest attempt, its records, and half a sentence on why this step.

    ``failing`` are the records that the failure may come from: those without a reward, or all of a
    step in which the run failed."""

    step: int
    why: str
    records: tuple[RewardRecord, ...]
    failing: tuple[RewardRecord, ...]

    @property
    def questions(self) -> tuple[str, ...]:
        """The IDs of its rows, those that failed first."""
        ids = (record.question_id for record in (*self.failing, *self.records))
        return tuple(dict.fromkeys(filter(None, ids)))


def row_key(record: RewardRecord) -> str:
    """What tells its row from others: the ID or number, else the ground truth, which it records."""
    return record.question_id or f"={record.ground_truth}"


def pick_step(run: Run, wanted: int | None = None) -> PickedStep | None:
    """Pick the wanted step, else the first failed step, else the first one.

    None if no reward of a training step is recorded; UsageError if ``wanted`` has none.
    """
    attempts = run.attempts()
    records = RewardRecords(attempts[-1].reward) if attempts else None
    if records is None:
        return None
    records.poll()
    steps = sorted(records.steps("train"))
    if not steps:
        return None
    if wanted is not None and wanted not in steps:
        nearest = min(steps, key=lambda step: abs(step - wanted))
        raise UsageError(
            f"run '{run.id}': step {wanted} has no recorded rewards. Nearest step: {nearest}"
        )
    for step in steps if wanted is None else [wanted]:
        picked = tuple(records.at("train", step).values())
        failed = tuple(record for record in picked if record.error is not None)
        if wanted is not None:
            return PickedStep(step, "as requested", picked, failed)
        if failed:
            why = f"the first step with failed rewards ({len(failed)})"
            return PickedStep(step, why, picked, failed)
    logged = max((logged_step.step for logged_step in read_steps(run.train_log)), default=0)
    if observed_state(run).state == "failed" and steps[-1] > logged:
        last = tuple(records.at("train", steps[-1]).values())
        return PickedStep(steps[-1], "the step in which the run failed", last, last)
    first = tuple(records.at("train", steps[0]).values())
    return PickedStep(steps[0], "the first step, because none failed", first, ())
