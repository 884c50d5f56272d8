"""``grubrics-tui ablate``: train variants of a config with several seeds, and compare them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, option, options, say
from grubrics_tui.commands.shared.output import wait_for_more
from grubrics_tui.commands.shared.trust import require_code_trust, trusted_source

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.measure.ablations.plan import AblationPlan

_POLL_S = 1.0
SEEDS = 3
_MOST_NAMED = 3


@dataclass(frozen=True)
class PlanRequest:
    """What the command line asks for. ``steps`` None: as in the config."""

    knobs: Mapping[str, Sequence[str]]
    arms: Sequence[tuple[str, Sequence[str]]]
    seeds: int
    steps: int | None
    allow_equal: bool
    stop_worse: bool


def ablate(
    base: Annotated[str, argument("BASE", "Config or run to vary, or an ablation to continue")],
    overrides: options.OverridesArgument = None,
    knob: Annotated[
        list[str] | None,
        option(
            "KEY=V1,V2",
            "Values to try; repeat it for every combination, e.g. --knob optim.lr=1e-4,2e-4",
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        option(
            "'NAME KEY=VALUE ...'",
            "One more arm with its overrides, or a known one: no-excerpts, no-information, "
            "no-defense, alignment-only; can be repeated",
        ),
    ] = None,
    seeds: Annotated[int | None, option("N", "Seeds of each arm (default: 3)")] = None,
    steps: Annotated[int | None, option("S", "Steps of each run (default: the config's)")] = None,
    allow_equal: Annotated[
        bool, flag("Accept arms that train alike, to measure noise", "--allow-equal")
    ] = False,
    keep_failing: Annotated[
        bool, flag("Start an arm although its first two seeds failed alike", "--keep-failing")
    ] = False,
    stop_worse: Annotated[
        bool, flag("Give up an arm once it is worse than the base", "--stop-worse")
    ] = False,
    metric: Annotated[
        str | None,
        option(
            "NAME", "Metric of the training log to compare by (default: validation reward or loss)"
        ),
    ] = None,
    dry_run: Annotated[
        bool, flag("Print the plan or the table; start nothing", "--dry-run")
    ] = False,
    wait: Annotated[bool, flag("Wait until all runs have ended", "--wait")] = False,
    append: Annotated[bool, flag("Append the table to the experiment log", "--append")] = False,
    file: Annotated[Path, option("FILE", "Experiment log, a Markdown file")] = Path(
        "docs/experiment-log.md"
    ),
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train and compare variants of a config with several seeds.

    The runs train in the background, one after the other. The same command prints the table, and
    continues an ablation that was interrupted. With --wait, exits with 1 if a run does not finish.
    """
    from engine.measure.ablations.report import read_report
    from engine.measure.ablations.runner import is_running, start_runner
    from engine.report.verdict import append_verdict, require_ended
    from grubrics_tui.text.plans import format_progress, format_table

    root = runs_root(runs)
    lines: list[str] = []
    if (folder := _written_plan(base)) is not None:
        given = (overrides, knob, arm, seeds is not None, steps is not None)
        plan = _existing_plan(folder, base, any((*given, allow_equal, stop_worse)))
    else:
        request = PlanRequest(
            _knobs(knob or []),
            [_arm(text) for text in arm or []],
            SEEDS if seeds is None else seeds,
            steps,
            allow_equal,
            stop_worse,
        )
        if dry_run and append:
            raise UsageError(f"--append with --dry-run: name an ablation, not '{base}'")
        plan, lines = _new_plan(base, list(overrides or []), request, root, trust, dry_run, as_json)
        if dry_run:
            return
    if append and not wait:
        require_ended(read_report(plan, root, metric))
    if not dry_run:
        start_runner(plan.folder, root, stop=not keep_failing)
        # Only now: a reader that closes the pipe (``| head``) must not keep the runs from starting.
        if lines and not as_json:
            say("\n".join([*lines, ""]))
        while wait and is_running(plan.folder):
            wait_for_more(_POLL_S)
    report = read_report(plan, root, metric)
    entry = append_verdict(file, report, root) if append else None
    lines = [*format_table(report), *format_progress(report)]
    lines += [f"appended {entry} to {file}"] if entry else []
    answer({**report.to_json(), "entry": entry}, "\n".join(lines), as_json)
    if wait and not report.went_well:
        raise typer.Exit(1)


def _written_plan(base: str) -> Path | None:
    """The folder of an ablation that ``base`` names by its path or ID."""
    from engine.measure.ablations.plan import FOLDER

    candidates = (Path(base), FOLDER / base)
    return next((path for path in candidates if (path / "plan.json").is_file()), None)


def _nothing_to_vary(base: str) -> UsageError:
    """The error for a base without arms: it may also be a mistyped ablation."""
    from engine.measure.ablations.plan import list_plans

    known = [plan.id for plan in list_plans()[:_MOST_NAMED]]
    or_continue = f", or name an ablation of this folder: {', '.join(known)}" if known else ""
    return UsageError(
        f"nothing to vary in '{base}': add --knob KEY=V1,V2 or --arm 'NAME KEY=VALUE ...'"
        f"{or_continue}"
    )


def _existing_plan(folder: Path, base: str, is_changed: bool) -> AblationPlan:
    from engine.measure.ablations.plan import read_plan

    if is_changed:
        raise UsageError(
            f"{base}: the arms, seeds and steps of an ablation do not change; start a new one"
        )
    return read_plan(folder)


def _new_plan(
    source: str,
    overrides: list[str],
    request: PlanRequest,
    root: Path,
    trust: bool,
    dry_run: bool,
    as_json: bool,
) -> tuple[AblationPlan, list[str]]:
    """Plan and write it, or print it if ``dry_run``. Returns it with the lines that show it and its
    cost. UsageError without an arm, and if one cannot be launched."""
    from engine.measure.ablations.cost import plan_cost
    from engine.measure.ablations.plan import arm_configs, find_similar, make_plan, read_plan
    from engine.measure.ablations.runner import write_plan
    from grubrics_tui.text.plans import format_plan, format_similar

    base, _ = trusted_source(source, overrides, root, trust)
    if not request.knobs and not request.arms:
        raise _nothing_to_vary(source)
    plan = make_plan(
        base,
        request.knobs,
        request.arms,
        request.seeds,
        _steps(base) if request.steps is None else request.steps,
        allow_equal=request.allow_equal,
        stop_worse=request.stop_worse,
    )
    for config in arm_configs(plan, base):
        require_code_trust(config, trust)
    cost = plan_cost(plan, base, root, os.environ)
    lines = [*format_plan(plan, cost), *format_similar(find_similar(plan, base))]
    if dry_run:
        value = {"ablation": plan.id, "plan": plan, "cost": cost}
        answer(value, "\n".join([*lines, "dry run: nothing was written or started"]), as_json)
    else:
        write_plan(plan, base, root)
        plan = read_plan(plan.folder)  # It may have been written before.
    return plan, lines


def _knobs(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values by key. UsageError for a key that is given twice."""
    from engine.measure.ablations.plan import split_values

    knobs: dict[str, tuple[str, ...]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        if not key or not all(split_values(values)):
            raise UsageError(f"--knob {text}: write KEY=V1,V2")
        if key in knobs:
            raise UsageError(f"--knob {key} is given twice; write all values in one: {key}=V1,V2")
        knobs[key] = split_values(values)
    return knobs


def _arm(text: str) -> tuple[str, tuple[str, ...]]:
    from engine.measure.ablations.plan import PRESETS, preset_arm

    name, *overrides = text.split() or [""]
    if not overrides and (preset := preset_arm(name)) is not None:
        return preset
    if not overrides or not all("=" in override for override in overrides):
        raise UsageError(f"--arm '{text}': write 'NAME KEY=VALUE ...' or {', '.join(PRESETS)}")
    return name, tuple(overrides)


def _steps(config: Config) -> int:
    from engine.config.steps import step_plan

    planned = step_plan(config)
    if planned is None:
        raise UsageError(f"{config.path}: the number of steps is unknown; set it with --steps")
    return planned.total


COMMAND = Command(ablate, Task.MEASURE)
