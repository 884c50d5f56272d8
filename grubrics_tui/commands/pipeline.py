"""``grubrics-tui pipeline``: run the stages of a file, one after the other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.text import format_command
from engine.config.config_files import PIPELINE, find_config
from engine.launch.pipelines.record import Record, final_model
from engine.launch.pipelines.stages import MODEL, Stage
from engine.run.run import RUNS_VARIABLE, Run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, option, options, say
from grubrics_tui.commands.shared.follow import parting
from grubrics_tui.commands.shared.output import wait_for_more
from grubrics_tui.commands.shared.trust import (
    require_config_trust,
    require_pipeline_trust,
)

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.launch.pipelines.record import PipelineStatus
    from engine.launch.pipelines.start import StartPlan


def pipeline(
    context: typer.Context,
    file: Annotated[
        str, argument("FILE", "YAML file of the pipeline: a path, or a name in configs/")
    ],
    skip: Annotated[list[str] | None, option("STAGE", "Skip this stage; may be repeated")] = None,
    start: Annotated[
        str | None, option("STAGE", "Skip the stages before this one", "--from")
    ] = None,
    status: Annotated[
        bool, flag("Print the state of each stage; start nothing", "--status")
    ] = False,
    wait: Annotated[bool, flag("Print each stage as it ends, until all have")] = False,
    dry_run: Annotated[
        bool, flag("Print the command of each stage; start nothing", "--dry-run")
    ] = False,
    after: options.AfterOption = None,
    queue: Annotated[
        bool, flag("Queue the pipeline until no other run is active", "--queue")
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
    from engine.launch.pipelines.stages import read_pipeline
    from engine.launch.pipelines.start import plan_start
    from engine.launch.pipelines.start import start as start_pipeline
    from grubrics_tui.text.plans import format_status

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
    commands = dict(_checked_commands(context, plan.record, root))
    argv = {name: ["grubrics-tui", *words] for name, words in commands.items()}
    value: dict[str, Any] = {"run": plan.run.directory.name, "dir": str(plan.run.directory)}
    value["commands"] = argv
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
    lines = [*format_status(reached, with_stages=not wait)]
    if not wait:
        status_words = format_command(["grubrics-tui", "pipeline", file, "--status"])
        lines.append(f"state of the stages: {status_words}. Stop it: grubrics-tui stop {run.id}")
    answer({**value, **reached.to_json()}, "\n".join(lines), as_json)
    if wait and not reached.went_well:
        raise typer.Exit(1)


def _answer_status(name: str, root: Path, as_json: bool) -> None:
    from engine.launch.pipelines.record import read_status
    from grubrics_tui.text.plans import format_status

    reached = read_status(name, root)
    if reached is None:
        raise UsageError(f"pipeline '{name}' was never started in {root}")
    answer(reached.to_json(), "\n".join(format_status(reached)), as_json)
    if reached.has_ended and not reached.went_well:
        raise typer.Exit(1)


def _status(run: Run, plan: StartPlan) -> PipelineStatus:
    from engine.launch.pipelines.record import status_of

    return status_of(run, plan.record)


def _followed(run: Run, plan: StartPlan, as_json: bool) -> PipelineStatus:
    """Print a line when a stage ends, until the pipeline has ended. Ctrl-C stops the pipeline."""
    from engine.supervise.stopping import stop_run
    from grubrics_tui.text.plans import format_stage

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


_LAUNCH_OPTIONS = frozenset(
    {
        *("config", "overrides", "device", "curriculum", "generate_data"),
        *("no_silent_defaults", "expect_data", "ray", "trust"),
    }
)
"""The parameters of ``launch`` that a stage may set; the pipeline sets the others."""
_CHECKS = frozenset(
    {"environment", "credentials", "config", "values", "trainer", "batch", "limits"}
)
"""The preflight checks that read no data."""


def _checked_commands(
    context: typer.Context, record: Record, root: Path
) -> Iterator[tuple[str, list[str]]]:
    """Yield each stage that runs, with the words of grubrics-tui that launch it.

    UsageError for words that its command would refuse.
    """
    models: dict[str, str] = {}

    def output_of(name: str, output: str) -> str | None:
        run = record.run_of(name)
        if run is None or output != MODEL:
            return run
        return models.get(name) or str(final_model(Run(root / run)))

    is_first = True
    for planned in record.stages:
        if planned.is_skipped:
            continue
        stage, run = planned.stage, str(planned.run)
        words = stage.with_outputs(output_of)
        try:
            parsed = _parse(context, stage, words)
            if stage.kind.trains:
                config = _check_launch(stage, parsed, root, is_complete=is_first)
                models[stage.name] = _planned_model(config, root, run)
        except UsageError as error:
            raise UsageError(f"{record.file}: stage '{stage.name}': {error}") from error
        is_first = False
        yield stage.name, stage.launch_words(run, words)


def _parse(context: typer.Context, stage: Stage, words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of the stage's command. UsageError for words that it does not take."""
    if not stage.kind.command:
        program = words[0]
        if os.sep not in program and shutil.which(program) is None:
            raise UsageError(f"'{program}': no such program")
        return {}
    name, *action = stage.kind.command
    group: Any = context.find_root().command
    command = group.get_command(context, name)
    with command.make_context(name, [*action, *words], parent=context.find_root()) as made:
        return dict(made.params)


def _check_launch(stage: Stage, parsed: dict[str, Any], root: Path, *, is_complete: bool) -> Config:
    """Read the config of a stage and run the preflight checks: all of them if ``is_complete``."""
    from engine.checks.preflight import require_launchable, run_checks
    from engine.config.load import load_config
    from engine.launch.plan_launch import parse_device

    given = {name for name, value in parsed.items() if value not in (None, False, [], ())}
    if others := sorted(given - _LAUNCH_OPTIONS):
        option = {"source": "from", "as_json": "json"}.get(others[0], others[0]).replace("_", "-")
        raise UsageError(f"--{option} is not for a stage; leave it out")
    config, trust = parsed["config"], bool(parsed["trust"])
    if config is None:
        raise UsageError("name a CONFIG")
    device = [parse_device(parsed["device"], os.environ).override] if parsed["device"] else []
    loaded = load_config(config, [*(parsed["overrides"] or ()), *device])
    if loaded.kind != stage.kind.trains:
        raise UsageError(
            f"{loaded.path} is a config of kind '{loaded.kind}'. Write {loaded.kind}: {config}"
        )
    require_config_trust(loaded, trust)
    env = {**os.environ, **({"RAY_ADDRESS": parsed["ray"]} if parsed["ray"] else {})}
    if is_complete and not parsed["generate_data"]:
        require_launchable(loaded, root, env=env)
        return loaded
    for check in run_checks(loaded, runs=root, env=env):
        if check.id in _CHECKS and check.status == "fail":
            fix = f" [fix: {check.fix}]" if check.fix else ""
            raise UsageError(f"{check.id}: {check.message}{fix}")
    return loaded


def _planned_model(config: Config, root: Path, run: str) -> str:
    """The folder of the final model that the stage will write."""
    from engine.config.places import checkpoint_dir
    from engine.launch.plan_launch import plan_launch

    return str(Path(checkpoint_dir(plan_launch(config, root, run).config)) / "final")


COMMAND = Command(pipeline, Task.RUN)
