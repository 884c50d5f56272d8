"""The step of a run that is worth repeating, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.history.reward_records import RewardRecords, Verdict
from engine.history.train_log import read_steps
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state


@dataclass(frozen=True)
class TellingStep:
    """``why`` is half a sentence; ``records`` are those of the newest attempt."""

    step: int
    why: str
    records: tuple[Verdict, ...]


def telling_step(run: RunDir, asked: int | None = None) -> TellingStep | None:
    """The step that was asked for; else the one that failed first, or the first one at all.

    None where no reward of a training step is recorded; UsageError where none of ``asked`` is.
    """
    attempts = run.attempts()
    records = RewardRecords(attempts[-1].reward) if attempts else None
    if records is None:
        return None
    records.look()
    steps = sorted(records.steps("train"))
    if not steps:
        return None
    if asked is not None and asked not in steps:
        near = min(steps, key=lambda one: abs(one - asked))
        raise UsageError(f"run '{run.id}': step {asked} has no recorded rewards; {near} has")
    step, why = _failing(run, records, steps) if asked is None else (asked, "as asked")
    return TellingStep(step, why, tuple(records.at("train", step).values()))


def _failing(run: RunDir, records: RewardRecords, steps: Sequence[int]) -> tuple[int, str]:
    for step in steps:
        failed = [one for one in records.at("train", step).values() if one.error is not None]
        if failed:
            return step, f"the first step with a reward that failed ({len(failed)} did)"
    logged = max((one.step for one in read_steps(run.train_log)), default=0)
    if observed_state(run).state == "failed" and steps[-1] > logged:
        return steps[-1], "the step in which the run failed"
    return steps[0], "no step failed, so the first one"
