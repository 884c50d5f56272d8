"""Check the words of every stage of a pipeline before the first one starts.

What an earlier stage writes may not exist yet: data, models. ``launch`` checks these when the stage
starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from engine.base.errors import UsageError
from engine.pipelines.record import Record, final_model
from engine.pipelines.stages import MODEL, Stage
from engine.runs.rundir import RunDir
from grubrics_tui.commands.shared.trust import require_code_trust, require_config_trust

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe

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


def checked_commands(
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
        return models.get(name) or str(final_model(RunDir(root / run)))

    is_first = True
    for planned in record.stages:
        if planned.is_skipped:
            continue
        stage, run = planned.stage, str(planned.run)
        words = stage.with_outputs(output_of)
        try:
            parsed = _parse(context, stage, words)
            if stage.kind.trains:
                recipe = _check_launch(stage, parsed, root, is_complete=is_first)
                models[stage.name] = _planned_model(recipe, root, run)
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


def _check_launch(stage: Stage, parsed: dict[str, Any], root: Path, *, is_complete: bool) -> Recipe:
    """Read the config of a stage and run the preflight checks: all of them if ``is_complete``."""
    from engine.launch.device import parse_device
    from engine.preflight.checklist import require_launchable, run_checks
    from engine.recipe.recipe import load_recipe

    given = {name for name, value in parsed.items() if value not in (None, False, [], ())}
    if others := sorted(given - _LAUNCH_OPTIONS):
        option = {"source": "from", "as_json": "json"}.get(others[0], others[0]).replace("_", "-")
        raise UsageError(f"--{option} is not for a stage; leave it out")
    config, trust = parsed["config"], bool(parsed["trust"])
    if config is None:
        raise UsageError("name a CONFIG")
    require_config_trust(config, trust)
    device = [parse_device(parsed["device"], os.environ).override] if parsed["device"] else []
    recipe = load_recipe(config, [*(parsed["overrides"] or ()), *device])
    if recipe.kind != stage.kind.trains:
        raise UsageError(
            f"{recipe.path} is a config of kind '{recipe.kind}'. Write {recipe.kind}: {config}"
        )
    require_code_trust(recipe, trust)
    env = {**os.environ, **({"RAY_ADDRESS": parsed["ray"]} if parsed["ray"] else {})}
    if is_complete and not parsed["generate_data"]:
        require_launchable(recipe, root, env=env)
        return recipe
    for check in run_checks(recipe, runs=root, env=env):
        if check.id in _CHECKS and check.status == "fail":
            fix = f" [fix: {check.fix}]" if check.fix else ""
            raise UsageError(f"{check.id}: {check.message}{fix}")
    return recipe


def _planned_model(recipe: Recipe, root: Path, run: str) -> str:
    """The folder of the final model that the stage will write."""
    from engine.launch.plan_launch import plan_launch
    from engine.recipe.places import checkpoint_dir

    return str(Path(checkpoint_dir(plan_launch(recipe, root, run).recipe)) / "final")
