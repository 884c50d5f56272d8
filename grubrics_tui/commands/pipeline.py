"""``grubrics-tui pipeline``: run the stages of a file, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.shell import format_command
from engine.recipe.config_files import PIPELINE, find_config
from engine.runs.rundir import RUNS_VARIABLE, RunDir, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, options, say
from grubrics_tui.commands.shared.follow import parting
from grubrics_tui.commands.shared.output import wait_for_more
from grubrics_tui.commands.shared.trust import require_pipeline_trust

if TYPE_CHECKING:
    from engine.pipelines.start import StartPlan
    from engine.pipelines.status import PipelineStatus


def pipeline(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="YAML file of the pipeline: a path, or a name in configs/"
        ),
    ],
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="STAGE", help="Skip this stage; may be repeated"),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="STAGE", help="Skip the stages before this one"),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Print the state of each stage; start nothing")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Print each stage as it ends, until all have")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of each stage; start nothing")
    ] = False,
    after: options.AfterOption = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Queue the pipeline until no other run is active")
    ] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run the stages of a file in order, each as a run.

    Stages download, prepare, train by SFT and GRPO, evaluate, or run any command, in the
    background. One that does not finish ends the pipeline; --from continues it. With --wait,
    exits with 1 if a stage did not finish; with --status, if one did not in the last start.
    """
    from engine.pipelines.stages import read_pipeline
    from engine.pipelines.start import plan_start
    from engine.pipelines.start import start as start_pipeline
    from grubrics_tui.commands.shared.stage_check import checked_commands
    from grubrics_tui.text.pipelines import format_status

    root = runs_root(runs)
    read = read_pipeline(find_config(file, PIPELINE))
    if status:
        if any((skip, start, wait, dry_run, after, queue)):
            raise UsageError("--status starts nothing; leave out the other options")
        _answer_status(read.name, root, as_json)
        return
    plan = plan_start(read, root, read.skipped(skip or [], start), after=after, queue=queue)
    if not dry_run:
        require_pipeline_trust(plan.record, trust)
    commands = dict(checked_commands(context, plan.record, root))
    value = _plan_json(plan, commands)
    if not as_json:
        if runs is not None:
            say(f"$ export {RUNS_VARIABLE}={format_command([runs])}")
        for words in commands.values():
            say(f"$ {format_command(['grubrics-tui', *words])}")
    if dry_run:
        answer({**value, "state": None}, "dry run: nothing was started", as_json)
        return
    run = start_pipeline(plan)
    reached = _followed(run, plan, as_json) if wait else _status(run, plan)
    lines = format_status(reached, with_stages=not wait)
    text = "\n".join([*lines, *([] if wait else [_next_words(file, run)])])
    answer({**value, **reached.to_json()}, text, as_json)
    if wait and not reached.went_well:
        raise typer.Exit(1)


def _answer_status(name: str, root: Path, as_json: bool) -> None:
    from engine.pipelines.status import read_status
    from grubrics_tui.text.pipelines import format_status

    reached = read_status(name, root)
    if reached is None:
        raise UsageError(f"pipeline '{name}' was never started in {root}")
    answer(reached.to_json(), "\n".join(format_status(reached)), as_json)
    if reached.has_ended and not reached.went_well:
        raise typer.Exit(1)


def _plan_json(plan: StartPlan, commands: dict[str, list[str]]) -> dict[str, Any]:
    argv = {name: ["grubrics-tui", *words] for name, words in commands.items()}
    return {"run": plan.run.directory.name, "dir": str(plan.run.directory), "commands": argv}


def _status(run: RunDir, plan: StartPlan) -> PipelineStatus:
    from engine.pipelines.status import status_of

    return status_of(run, plan.record)


def _followed(run: RunDir, plan: StartPlan, as_json: bool) -> PipelineStatus:
    """Print a line when a stage ends, until the pipeline has ended. Ctrl-C stops the pipeline."""
    from engine.supervise.stopping import stop_run
    from grubrics_tui.text.pipelines import format_stage

    out, printed = sys.stderr if as_json else sys.stdout, set[str]()
    with parting(run):
        try:
            while True:
                reached = _status(run, plan)
                for stage in reached.stages:
                    if stage.has_ended and stage.name not in printed:
                        printed.add(stage.name)
                        say(format_stage(stage), to=out, flush=True)
                if reached.has_ended:
                    return reached
                wait_for_more()
        except KeyboardInterrupt:
            say(f"stopping {run.id} ...", to=out, flush=True)
            stop_run(run)
            return _status(run, plan)


def _next_words(file: str, run: RunDir) -> str:
    status = format_command(["grubrics-tui", "pipeline", file, "--status"])
    return f"state of the stages: {status}. Stop it: grubrics-tui stop {run.id}"


COMMAND = Command(pipeline, Task.RUN)
