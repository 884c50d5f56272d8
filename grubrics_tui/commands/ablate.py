"""``grubrics-tui ablate``: train variants of a config with several seeds, and compare them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    ConfigArgument,
    JsonOption,
    OverridesArgument,
    RunsOption,
    TrustOption,
)
from grubrics_tui.commands.shared.output import answer, say
from grubrics_tui.commands.shared.trust import require_code_trust, require_config_trust

if TYPE_CHECKING:
    from engine.ablations.plan import AblationPlan
    from engine.ablations.table import ArmRow
    from engine.recipe.recipe import Recipe
    from engine.statistics.intervals import Estimate

_POLL_S = 2.0


def ablate(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2",
            help="Values to try; repeat it for every combination, e.g. --knob optim.lr=1e-4,2e-4",
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME KEY=VALUE ...'", help="One more arm with its overrides; can be repeated"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds of each arm")] = 3,
    steps: Annotated[
        int | None, typer.Option(metavar="S", help="Steps of each run (default: the config's)")
    ] = None,
    allow_equal: Annotated[
        bool, typer.Option("--allow-equal", help="Accept arms that train alike, to measure noise")
    ] = False,
    no_stop: Annotated[
        bool, typer.Option("--no-stop", help="Start every run, whatever failed before")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the plan; start nothing")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until all runs have ended")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train variants of a config with the same seeds, one run after the other, in the background.

    The same command continues an ablation that was interrupted, and prints its table.
    """
    from engine.ablations.measure import find_measure, why_incomparable
    from engine.ablations.plan import make_plan
    from engine.ablations.runner import given_up, start_runner
    from engine.ablations.table import make_table, read_runs
    from engine.base import jsonl
    from engine.recipe.recipe import load_recipe

    require_config_trust(config, trust)
    base, root = load_recipe(config, overrides or []), runs_root(runs)
    require_code_trust(base, trust)
    plan = make_plan(
        config,
        overrides or [],
        dict(_knob(text) for text in knob or []),
        dict(_arm(text) for text in arm or []),
        seeds,
        steps or _steps(base),
        allow_equal=allow_equal,
    )
    if not as_json:
        say("\n".join(_plan_lines(plan, base, root)))
    if not dry_run:
        plan.write()
        jsonl.write_json(plan.folder / "settings.json", {"stop": not no_stop})
        start_runner(plan.folder, root)
        while wait and _is_running(plan.folder):
            time.sleep(_POLL_S)
    measure = find_measure(plan)
    table = make_table(
        plan,
        read_runs(plan, root, measure),
        lower_is_better=measure.lower_is_better,
        stopped=given_up(plan, root, stop=not no_stop),
        incomparable=why_incomparable(plan),
    )
    value: dict[str, Any] = {
        "ablation": plan.id,
        "dir": str(plan.folder),
        "metric": measure.title,
        "steps": plan.steps,
        "seeds": list(plan.seeds),
        "arms": [row.to_json() for row in table],
    }
    lines = ["dry run: nothing was started"] if dry_run else _table_lines(table, measure.title)
    answer(value, "\n".join(lines), as_json)


def _knob(text: str) -> tuple[str, list[str]]:
    key, _, values = text.partition("=")
    if not key or not values:
        raise UsageError(f"--knob {text}: write KEY=V1,V2")
    return key, values.split(",")


def _arm(text: str) -> tuple[str, list[str]]:
    name, *overrides = text.split()
    if not overrides or not all("=" in override for override in overrides):
        raise UsageError(f"--arm '{text}': write 'NAME KEY=VALUE ...'")
    return name, overrides


def _steps(recipe: Recipe) -> int:
    from engine.recipe.steps import step_plan

    planned = step_plan(recipe)
    if planned is None:
        raise UsageError(f"{recipe.path}: the number of steps is unknown; set it with --steps")
    return planned.total


def _is_running(folder: Path) -> bool:
    from engine.ablations.runner import locked

    try:
        with locked(folder):
            return False
    except UsageError:
        return True


def _plan_lines(plan: AblationPlan, base: Recipe, root: Path) -> Iterator[str]:

    count = len(plan.arms) * len(plan.seeds)
    yield (
        f"{plan.id}: {len(plan.arms)} arms x {len(plan.seeds)} seeds x {plan.steps} steps = "
        f"{count} runs"
    )
    for arm in plan.arms:
        pairs = arm.differences.items()
        changes = ", ".join(f"{key}: {before} -> {after}" for key, (before, after) in pairs)
        yield f"  {arm.name}: {changes or 'the config as it is'}"
    if len(plan.seeds) < 3:
        yield (
            "  1 seed gives no verdict"
            if len(plan.seeds) == 1
            else "  2 seeds: an interval is 9 standard deviations wide to each side"
        )


def _table_lines(table: Sequence[ArmRow], metric: str) -> list[str]:
    width = max(len(row.name) for row in table)
    lines = ["", f"{'':{width}}  {metric:>10}  seeds  difference from base, 95% interval"]
    for row in table:
        mean = "-" if row.mean is None else f"{row.mean.mean:+.3f}"
        ended = sum(run.state is not None and run.state.has_ended for run in row.runs)
        lines.append(
            f"{row.name:{width}}  {mean:>10}  {ended}/{len(row.runs):<3}  {_format_verdict(row)}"
        )
        if row.stopped:
            lines.append(f"{'':{width}}  stopped: {row.stopped}")
    return lines


def _format_verdict(row: ArmRow) -> str:
    if row.comparison is None:
        return ""
    comparison = row.comparison
    text = f"{comparison.difference.mean:+.3f} {_format_interval(comparison.difference)}"
    if row.verdict is None:
        return f"{text} no verdict from one seed"
    if comparison.needed is not None:
        return f"{text} {row.verdict}; about {comparison.needed} seeds would show it"
    return f"{text} {row.verdict}"


def _format_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "(no interval)"
    return f"({estimate.low:+.3f} to {estimate.high:+.3f})"


COMMAND = Command(ablate, Task.RUN)
