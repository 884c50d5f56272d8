"""Small runs that answer a question: ``reproduce`` and ``pipeline-check``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.launch_command import followed
from grubrics_tui.commands.options import JsonOption, RunArgument, RunsOption, answer, say
from grubrics_tui.commands.recorded_command import reproduce_recorded
from grubrics_tui.commands.trusting import (
    TrustOption,
    require_code_trust,
    require_config_trust,
    require_run_code_trust,
)
from grubrics_tui.drawing.changes import change_json
from grubrics_tui.drawing.changes import told as told_of

if TYPE_CHECKING:
    from engine.findings.finding import Change
    from engine.launch.launcher import LaunchPlan
    from engine.launch.twin import Twin
    from engine.launch.twin_verdict import Verdict

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be launched")]


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


def pipeline_check(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG]", help="A recipe [default: verl_grpo_debug; without a GPU grpo_tiny]"
        ),
    ] = None,
    dry_run: DryRunOption = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ten small steps through everything, and four ticks. Exit code 1 when one is missing."""
    from engine.history.train_log import history, read_steps
    from engine.launch.pipeline_check import default_config, small_run, ticks
    from engine.recipe.scoring import asks_judge

    chosen = config or default_config()
    require_config_trust(chosen, trust)
    plan, changes = small_run(chosen, runs_root(runs))
    require_code_trust(plan.recipe, trust)
    if not as_json:
        say(f"recipe: {plan.recipe.name} ({plan.recipe.path})")
        _show_changes("changed for the check", changes)
    told = {
        "recipe": plan.recipe.name,
        "run": plan.run_id,
        "dir": str(plan.directory),
        "shrunk": [change_json(one) for one in changes],
    }
    if dry_run:
        answer({**told, "ticks": None}, "dry run: nothing was launched", as_json)
        return
    small = _launched(plan)
    state = followed(small, as_json)
    judged = asks_judge(plan.recipe)
    found = ticks(history(read_steps(small.train_log)), judged=judged)
    passed = state.went_well and all(tick.passed for tick in found)
    lines = [f"{'✓' if tick.passed else '✗'} {tick.id}: {tick.text}" for tick in found]
    more: dict[str, Any] = {"state": state.state, "reason": state.reason, "ok": passed}
    more["ticks"] = [tick.to_json() for tick in found]
    ending = "" if state.went_well else f"\nthe run {state.word}: {state.reason or 'no reason'}"
    answer({**told, **more}, "\n".join(lines) + ending, as_json)
    raise typer.Exit(0 if passed else 1)


def _launched(plan: LaunchPlan) -> RunDir:
    """Launch what passes the checklist."""
    from engine.launch.launcher import launch
    from engine.preflight.checklist import require_launchable

    require_launchable(plan.recipe, plan.directory.parent, env=os.environ)
    return launch(plan)


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
    _show_changes("shrunk", twin.shrunk)
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


def _show_changes(title: str, changes: Sequence[Change]) -> None:
    say(title)
    for change in changes:
        say(f"  {told_of(change)}")


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
