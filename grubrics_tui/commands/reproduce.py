"""``grubrics-tui reproduce``: relaunch a run at small scale, or rescore its rollouts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.quantities import format_count, format_fixed
from engine.run.run import Run, find_run, runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, say
from grubrics_tui.commands.shared.finding_text import say_changes
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.output import judge_log_hidden
from grubrics_tui.commands.shared.trust import require_run_code_trust
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.repro import Repro
    from engine.launch.rescore import Recorded, Replay

_MOST_LINES = 12


def reproduce(
    run: options.RunArgument,
    dry_run: options.DryRunOption = False,
    wait: Annotated[
        bool, flag("Wait for the small run and print the verdict", "--wait/--no-wait")
    ] = True,
    rescore: Annotated[
        bool, flag("Rescore a step's recorded rollouts; do not train", "--rescore")
    ] = False,
    step: Annotated[
        int | None,
        option("STEP", "Use the rows or rollouts of this step (default: the first failed one)"),
    ] = None,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Relaunch a run at small scale to see if it fails again.

    Exits with 0 if the small run passes, 1 if it fails, 3 if it was stopped or lost (no verdict).
    """
    from engine.doctor.diagnose import diagnose_run
    from engine.launch.lineage import compare_small, must_fail
    from engine.launch.lineage import verdict as judge_small_run
    from engine.launch.repro import launch_repro, plan_repro

    original = find_run(runs_root(runs), run)
    require_run_code_trust(original, trust)
    if rescore:
        _rescore(original, step, dry_run, as_json)
        return
    repro = plan_repro(original, step=step)
    causes = repro.causes(diagnose_run(original))
    if not as_json:
        _show_repro(repro)
        if causes:
            say(f"\n{must_fail(causes)}")
            say(f"  apply its fix instead: grubrics-tui fix {original.id} --number N")
    value = {**repro.to_json(), "causes": causes}
    if dry_run:
        answer({**value, "verdict": None}, "dry run: nothing was launched", as_json)
        return
    small = launch_repro(repro)
    if not wait:
        answer({**value, "verdict": None}, f"{small.id}  launched", as_json)
        return
    followed(small, as_json)
    verdict = judge_small_run(
        observed_state(original),
        diagnose_run(original),
        observed_state(small),
        diagnose_run(small),
        compare_small(original, small),
    )
    answer({**value, "verdict": verdict}, f"verdict: {verdict.text}", as_json)
    raise typer.Exit(verdict.exit_code)


def _show_repro(repro: Repro) -> None:
    say_changes("reduced:", repro.reduced)
    say("unchanged:")
    for key, value in repro.unchanged.items():
        say(f"  {key}: {value}")
    if repro.rows is None:
        say("rows: the run's training file from the start, with the same seed")
        if repro.left_out:
            say(f"left out: {repro.left_out}")
    else:
        count = len(repro.rows.questions)
        say(f"rows: the {count} questions of step {repro.rows.step}, {repro.rows.why}")
    if repro.edited:
        say(f"warning: {repro.edited}")


def _rescore(run: Run, step: int | None, dry_run: bool, as_json: bool) -> None:
    """Rescore a step's rollouts. Exits with 1 if rewards fail or differ."""
    from engine.launch.rescore import recorded, replay

    plan = recorded(run, step)
    if not as_json:
        say("\n".join(_rescoring_lines(plan)))
    value: dict[str, Any] = {
        "run": plan.run,
        "step": plan.step,
        "why": plan.why,
        "rollouts": len(plan.rollouts),
        "gone": plan.gone,
        "edited": plan.edited,
    }
    if dry_run:
        answer({**value, "replay": None}, "dry run: nothing was rescored", as_json)
        return
    with judge_log_hidden():
        result = replay(plan, os.environ)
    answer({**value, "replay": result.to_json()}, "\n".join(_result_lines(result)), as_json)
    raise typer.Exit(0 if result.is_clean else 1)


def _rescoring_lines(plan: Recorded) -> Iterator[str]:
    from engine.base.judge_providers import asks_server

    judge, count = plan.judge, len(plan.rollouts)
    scorer = "the config's reward function"
    if judge is not None:
        is_server = asks_server(judge.provider)
        scorer = f"{judge.provider} {judge.model}" if is_server else f"the {judge.provider} judge"
    yield f"step {plan.step}, {plan.why}: {count} recorded rollouts, scored by {scorer}"
    if plan.edited:
        files = ", ".join(plan.edited[:4]) + (", ..." if len(plan.edited) > 4 else "")
        yield f"edited since the launch: {files}; scored with the current version"
    if plan.gone:
        rollouts = format_count(plan.gone, "rollout")
        yield f"skipped: {rollouts} whose question is no longer in the training file"


def _result_lines(replay: Replay) -> Iterator[str]:
    """Yield the rewards that differ, and the verdict."""
    changed = [rollout for rollout in replay.rollouts if rollout.outcome != "same"]
    for again in changed[:_MOST_LINES]:
        then = f"failed ({again.failed_then})" if again.failed_then else format_fixed(again.then)
        now = f"failed ({again.failed})" if again.failed else format_fixed(again.now)
        cause = f"  by {again.moved}" if again.moved else ""
        yield clean_text(f"  {again.question_id} rollout {again.rollout}: {then} -> {now}{cause}")
    if len(changed) > _MOST_LINES:
        yield f"  and {len(changed) - _MOST_LINES} more"
    yield f"verdict: {replay.text}"


COMMAND = Command(reproduce, Task.DIAGNOSE)
