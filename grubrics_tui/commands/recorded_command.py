"""``reproduce --recorded``: the reward alone, over the rollouts that a run recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from engine.runs.rundir import RunDir
from grubrics_tui.commands.judge_command import quiet
from grubrics_tui.commands.options import answer, say
from grubrics_tui.text.formats import fixed
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.judge.settings import JudgeSettings
    from engine.launch.recorded import Again, Recorded, Replay

_MOST_LINES = 12


def reproduce_recorded(run: RunDir, step: int | None, dry_run: bool, as_json: bool) -> None:
    """Score a step's rollouts again. Exit code 1 when rewards fail, or come out otherwise."""
    from engine.launch.recorded import recorded, replay

    plan = recorded(run, step)
    if not as_json:
        for line in _planned(plan):
            say(line)
    told: dict[str, Any] = {
        "run": plan.run,
        "step": plan.step,
        "why": plan.why,
        "rollouts": len(plan.rollouts),
        "gone": plan.gone,
        "edited": plan.edited,
    }
    if dry_run:
        answer({**told, "replay": None}, "dry run: nothing was scored", as_json)
        return
    with quiet():
        found = replay(plan, os.environ)
    answer({**told, "replay": found.to_json()}, "\n".join(_lines(found)), as_json)
    raise typer.Exit(0 if found.is_clean else 1)


def _planned(plan: Recorded) -> Iterator[str]:
    count = len(plan.rollouts)
    yield f"step {plan.step}, {plan.why}: {count} recorded rollouts, scored by {_by(plan.judge)}"
    if plan.edited:
        named = ", ".join(plan.edited[:4]) + (", ..." if len(plan.edited) > 4 else "")
        yield f"not what the run was launched with: {named}; scored with what is there now"
    if plan.gone:
        yield f"left out: {plan.gone} whose question is not in the training file any more"


def _by(judge: JudgeSettings | None) -> str:
    if judge is None:
        return "the recipe's reward function"
    offline = judge.provider == "offline"
    return "the offline judge" if offline else f"{judge.provider} {judge.model}"


def _lines(found: Replay) -> Iterator[str]:
    telling = [one for one in found.rollouts if one.outcome != "same"]
    for one in telling[:_MOST_LINES]:
        yield clean_text(_line(one))
    if len(telling) > _MOST_LINES:
        yield f"  and {len(telling) - _MOST_LINES} more"
    yield f"verdict: {found.text}"


def _line(one: Again) -> str:
    then = f"failed ({one.failed_then})" if one.failed_then else fixed(one.then)
    now = f"failed ({one.failed})" if one.failed else fixed(one.now)
    by = f"  by {one.moved}" if one.moved else ""
    return f"  {one.question_id} rollout {one.rollout}: {then} -> {now}{by}"
