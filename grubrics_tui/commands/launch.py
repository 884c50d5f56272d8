"""``grubrics-tui launch``: start a run in the background."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.errors import UsageError
from engine.base.masking import shown
from engine.base.text import format_command, format_config_value
from engine.config.config_files import config_names
from engine.run.run import Run, find_run, run_ids, runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, answer, options, say, warn
from grubrics_tui.commands.shared.completions import complete_launched, complete_run
from grubrics_tui.commands.shared.follow import answer_launched, state_json
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.run_text import outcome
from grubrics_tui.commands.shared.trust import (
    require_code_trust,
    require_config_trust,
    require_trust,
)

if TYPE_CHECKING:
    from engine.checks.check import Check
    from engine.config.load import Config
    from engine.launch.launcher import LaunchPlan
    from engine.launch.plan_launch import Order
    from engine.supervise.ray_jobs import Cluster


def launch(
    config: Annotated[
        str | None,
        argument(
            "[CONFIG]", options.CONFIG_HELP, show_default=False, autocompletion=complete_launched
        ),
    ] = None,
    overrides: options.OverridesArgument = None,
    source: Annotated[
        str | None,
        option(
            "RUN",
            "Launch the config of this run again, instead of CONFIG",
            "--from",
            autocompletion=complete_run,
        ),
    ] = None,
    name: Annotated[str | None, option("ID", "Run ID (default: CONFIG-TIMESTAMP)")] = None,
    wait: Annotated[bool, flag("Print progress until the run ends")] = False,
    seeds: Annotated[
        str | None, option("N,N,...", "Seeds, e.g. 1,2,3: one queued run each")
    ] = None,
    device: Annotated[
        str | None,
        option(
            "DEVICE",
            "Device instead of the config's: cpu, cuda, or GPUs as nvidia-smi numbers them, "
            "e.g. cuda:1 or cuda:0,1",
        ),
    ] = None,
    curriculum: Annotated[
        str | None,
        option(
            "PHASES",
            "Phases of GRPO, each VERIFIABLE:OPEN:STEPS or with a factor of the learning rate "
            "as a fourth number, e.g. '0.8:0.2:0.5 0.2:0.8:0.5:0.1'; sets grubrics.curriculum",
        ),
    ] = None,
    generate_data: Annotated[
        bool,
        flag(
            "Prepare the curriculum's two training files if they are missing, from the preset "
            "'curriculum' and rows with gold scores",
            "--generate-data",
        ),
    ] = False,
    dry_run: options.DryRunOption = False,
    after: options.AfterOption = None,
    queue: options.QueueOption = False,
    no_silent_defaults: Annotated[
        bool,
        flag(
            "Refuse a config that leaves what is learned to defaults, such as the learning rate",
            "--no-silent-defaults",
        ),
    ] = False,
    expect_data: Annotated[
        str | None, option("SHA256,...", "Refuse data files with other hashes")
    ] = None,
    deterministic: Annotated[
        bool,
        flag(
            "Repeat a run bit by bit where the hardware can; sets grubrics.deterministic",
            "--deterministic",
            "--repro",
        ),
    ] = False,
    ray: Annotated[
        str | None, option("ADDRESS", "Submit as a job to this Ray cluster, e.g. http://head:8265")
    ] = None,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Launch a run in the background.

    With --from, all arguments are KEY=VALUE. The end of a key is enough if it names one: lr=1e-5.
    The run gets its own checkpoint folder if that of the config belongs to another run.
    Exits with 2 if a preflight check fails. With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.plan_launch import Order, launch_all, parse_device, parse_seeds
    from engine.launch.ray_target import describe_target

    root = runs_root(runs)
    chosen = parse_device(device, os.environ) if device is not None else None
    variables = chosen.variables if chosen else {}
    order = Order(name, parse_seeds(seeds or ""), after, queue, variables)
    if wait and len(order.seeds) > 1:
        raise UsageError("--wait follows one run; leave it out, or give one seed")
    demands = _demands(curriculum, no_silent_defaults, expect_data, deterministic)
    words = [*(overrides or []), *([chosen.override] if chosen else []), *demands]
    loaded, again = _read(config, source, words, root, trust)
    if generate_data:
        from engine.launch.curriculum_data import with_prepared_files

        loaded = with_prepared_files(loaded, dry_run=dry_run)
    plans, cluster = _planned(loaded, root, order, ray, again)
    if not as_json:
        for plan in plans:
            say("\n".join(_format_plan(plan)))
        if cluster:
            say(f"  {describe_target(cluster, loaded)}")
    # The others differ in seed and folder; each is checked again when its turn comes.
    checks = _checked(plans[0], root, cluster)
    plans = [plan.with_warnings(checks) for plan in plans]
    warnings = list(plans[0].warnings)
    warn(warnings)
    values: list[dict[str, Any]] = [
        {
            "run": plan.run_id,
            "dir": str(plan.directory),
            "argv": list(plan.argv),
            "warnings": warnings,
        }
        for plan in plans
    ]
    if dry_run:
        planned = [{**value, "state": None} for value in values]
        answer(_together(planned), "dry run: nothing was launched", as_json)
        return
    started = launch_all(plans)
    if len(started) == 1:
        answer_launched(started[0], values[0], wait=wait, as_json=as_json)
        return
    states = [observed_state(run) for run in started]
    launched = [value | state_json(state) for value, state in zip(values, states, strict=True)]
    lines = (outcome(run, state) for run, state in zip(started, states, strict=True))
    answer(_together(launched), "\n".join(lines), as_json)


def _read(
    config: str | None, source: str | None, overrides: Sequence[str], root: Path, trust: bool
) -> tuple[Config, Run | None]:
    """Return the config to launch, and the run that it is of with ``--from``."""
    from engine.config.load import load_config
    from engine.launch.plan_launch import config_for_launch

    if source is not None:
        words = [*([config] if config else []), *overrides]
        run = find_run(root, source)
        require_trust(run, trust, executes=True)
        loaded, again = config_for_launch(run, words, root)
        require_code_trust(loaded, trust)
        return loaded, again
    if config is None:
        raise UsageError("name a CONFIG, or a run whose config to launch again: --from RUN")
    if config in run_ids(root) and config not in config_names():
        raise UsageError(
            f"'{config}' is a run; to launch its config again: grubrics-tui launch --from {config}"
        )
    loaded = load_config(config, overrides)
    require_config_trust(loaded, trust)
    return loaded, None


def _demands(
    curriculum: str | None, no_silent_defaults: bool, expect_data: str | None, deterministic: bool
) -> Iterator[str]:
    """Yield the overrides that the options stand for."""
    if curriculum is not None:  # In quotes: YAML reads 1:0:1 as a number.
        yield f"grubrics.curriculum={json.dumps(curriculum)}"
    if deterministic:
        yield "grubrics.deterministic=true"
    if no_silent_defaults:
        yield "grubrics.no_silent_defaults=true"
    if expect_data is not None:
        hashes = [part.strip() for part in expect_data.split(",")]
        yield f"grubrics.expect_data={json.dumps(hashes)}"


def _planned(
    config: Config, root: Path, order: Order, ray: str | None, again: Run | None
) -> tuple[list[LaunchPlan], Cluster | None]:
    """Return the launch plans, and the Ray cluster that would train."""
    from engine.launch.plan_launch import plan_launches
    from engine.launch.ray_target import chosen_cluster

    asked = ray or (again.read_manifest().ray if again else None)
    is_remote = asked or os.environ.get("RAY_ADDRESS", "local") not in ("", "local")
    if is_remote and order.variables:
        raise UsageError("--device: the Ray cluster chooses the GPUs; leave out their numbers")
    cluster = chosen_cluster(asked, config)
    address, env = cluster.address if cluster else None, _environment(cluster, order.variables)
    return plan_launches(config, root, order, address, again, env), cluster


def _checked(plan: LaunchPlan, root: Path, cluster: Cluster | None) -> list[Check]:
    """Return the warnings of the preflight checks. UsageError if a check fails."""
    from engine.checks.preflight import require_launchable
    from engine.launch.queueing import ahead

    queued, env = plan.ticket, _environment(cluster, plan.variables)
    before = ahead(queued, root) if queued else ()
    turn = queued is not None and queued.turn
    return require_launchable(plan.config, root, ahead=before, waits=turn, env=env)


def _environment(cluster: Cluster | None, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the trainer."""
    address = {"RAY_ADDRESS": cluster.address} if cluster else {}
    return {**os.environ, **variables, **address}


def _format_plan(plan: LaunchPlan) -> Iterator[str]:
    """Yield the command, the overrides, the schedules, the phases of the curriculum, and why the
    run has another folder."""
    from engine.config.curriculum import find_curriculum
    from engine.config.schedule import schedules

    yield f"$ {format_command(plan.argv)}"
    for change in plan.config.changes:
        before, after = format_config_value(change.before), format_config_value(change.after)
        yield f"  {change.key}: {before} -> {after} ({change.origin})"
    if plan.variables:
        yield f"  {' '.join(f'{name}={shown(name, v)}' for name, v in plan.variables.items())}"
    for schedule in schedules(plan.config.get):
        yield f"  {schedule.of.name} {schedule.describe(plan.total_steps)}"
    if (phases := find_curriculum(plan.config.get)) is not None:
        yield from (f"  {line}" for line in phases.describe())
    if plan.folder_note:
        yield f"  {plan.folder_note}"


def _together(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer about one run, or about several."""
    return values[0] if len(values) == 1 else {"runs": list(values)}


COMMAND = Command(launch, Task.RUN)
