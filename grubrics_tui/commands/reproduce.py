"""``grubrics-tui reproduce``: relaunch a run at small scale, or rescore its rollouts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.finding_text import show_changes
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import (
    DryRunOption,
    JsonOption,
    RunArgument,
    RunsOption,
    TrustOption,
)
from grubrics_tui.commands.shared.output import answer, quiet, say
from grubrics_tui.commands.shared.trust import require_run_code_trust
from grubrics_tui.drawing.changes import change_json
from grubrics_tui.text.formats import fixed
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.judge.settings import JudgeSettings
    from engine.launch.recorded import Again, Recorded, Replay
    from engine.launch.twin import Twin
    from engine.launch.twin_verdict import Verdict


def reproduce(
    run: RunArgument,
    dry_run: DryRunOption = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow it to its end, for the verdict")
    ] = True,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Only score a step's recorded rollouts again")
    ] = False,
    step: Annotated[
        int | None, typer.Option(help="Step whose data is used [default: the first that failed]")
    ] = None,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a shrunken twin of a run: does it fail in small too?

    Exit code 1 when it does, 3 when it was stopped or lost and so says nothing.
    """
    from engine.doctor.diagnose import diagnose_run
    from engine.launch.twin import launch_planned, twin_of
    from engine.launch.twin_verdict import must_fail

    original = find_run(runs_root(runs), run)
    require_run_code_trust(original, trust)
    if recorded:
        reproduce_recorded(original, step, dry_run, as_json)
        return
    twin = twin_of(original, step=step)
    causes = twin.causes(diagnose_run(original))
    if not as_json:
        _show_twin(twin)
        if causes:
            say(f"\n{must_fail(causes)}")
            say(f"  apply its remedy instead: grubrics-tui remedy {original.id} --number N")
    told = {**_twin_json(twin), "causes": causes}
    if dry_run:
        answer({**told, "verdict": None}, "dry run: nothing was launched", as_json)
        return
    small = launch_planned(twin)
    if not wait:
        answer({**told, "verdict": None}, f"{small.id}  launched", as_json)
        return
    followed(small, as_json)
    found = _verdict(original, small)
    answer({**told, "verdict": found.to_json()}, f"verdict: {found.text}", as_json)
    raise typer.Exit(found.exit_code)


def _verdict(original: RunDir, small: RunDir) -> Verdict:
    from engine.doctor.diagnose import diagnose_run
    from engine.launch.twin_verdict import verdict

    return verdict(
        observed_state(original),
        diagnose_run(original),
        observed_state(small),
        diagnose_run(small),
        next(reversed(original.attempts()), None),
    )


def _show_twin(twin: Twin) -> None:
    show_changes("shrunk", twin.shrunk)
    say("kept")
    for key, value in twin.kept.items():
        say(f"  {key}: {value}")
    if twin.rows is None:
        say("rows: the run's own training file, from its beginning, with the same seed")
    else:
        count = len(twin.rows.questions)
        say(f"rows: the {count} questions of step {twin.rows.step}, {twin.rows.why}")
    if twin.edited:
        say(f"warning: {twin.edited}")


def _twin_json(twin: Twin) -> dict[str, Any]:
    rows = twin.rows
    return {
        "run": twin.plan.run_id,
        "dir": str(twin.plan.directory),
        "parent": {"run": twin.run, "relation": "reproduction"},
        "shrunk": [change_json(one) for one in twin.shrunk],
        "kept": dict(twin.kept),
        "edited": twin.edited,
        "rows": None
        if rows is None
        else {"step": rows.step, "why": rows.why, "questions": list(rows.questions)},
    }


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
    from engine.judge.providers import asks_server

    if judge is None:
        return "the recipe's reward function"
    is_server = asks_server(judge.provider)
    return f"{judge.provider} {judge.model}" if is_server else f"the {judge.provider} judge"


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


COMMAND = Command(reproduce, Task.DIAGNOSE)
