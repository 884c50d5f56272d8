"""``grubrics-tui config``: print the values of a config or run with their origins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError, unknown_name
from engine.runs.kinds import require_config
from engine.runs.rundir import RunDir, find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    JsonOption,
    OverridesArgument,
    RunsOption,
    SourceArgument,
)
from grubrics_tui.commands.shared.output import print_json, say

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


ORIGINS = ("default", "file", "cli", "environment", "implied")


def config(
    name: SourceArgument,
    overrides: OverridesArgument = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="Print only values that are set but have no effect")
    ] = False,
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGIN",
            help="Print only values of this origin: default, file, cli, environment or implied",
        ),
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the values of a config or run with their origins."""
    if origin is not None and origin not in ORIGINS:
        raise unknown_name("origin", origin, ORIGINS)
    recipe, values = _read(name, overrides or [], runs_root(runs))
    if unused:
        _print_unused(recipe, origin, as_json)
        return
    shown = {key: entry for key, entry in values.items() if origin in (None, entry["origin"])}
    if as_json:
        print_json({"kind": recipe.kind.name, "values": shown})
        return
    for key, entry in shown.items():
        say(f"{entry['origin']:<11} {key}={_text(entry['value'])}")


def _read(
    name: str, overrides: list[str], root: Path
) -> tuple[Recipe, Mapping[str, Mapping[str, Any]]]:
    """Return a config with the values of a launch from here, or a run's with those it had."""
    from engine.recipe.config_files import find_config
    from engine.recipe.frozen import config_of
    from engine.recipe.recipe import load_recipe

    try:
        find_config(name)
    except UsageError as error:
        try:
            run = find_run(root, name)
        except UsageError:
            raise error from None
        if overrides:
            raise UsageError(f"overrides apply to a config; '{run.id}' is a run") from None
        return _launched(run)
    recipe = load_recipe(name, overrides)
    return recipe, config_of(recipe, root / "RUN" / "attempt_1")


def _launched(run: RunDir) -> tuple[Recipe, Mapping[str, Mapping[str, Any]]]:
    """Return the config of a run with the values and origins of its manifest."""
    from dataclasses import replace

    from engine.recipe.recipe import load_recipe

    manifest = run.read_manifest()
    require_config(manifest, run.id)
    recorded = manifest.get("config", {})
    if not recorded:
        raise UsageError(f"{run.manifest} has no config values")
    recipe = load_recipe(str(run.recipe), (), {})
    origins = {
        key: recorded[key]["origin"] if recipe.is_chosen(key) and key in recorded else default
        for key, default in recipe.origins.items()
    }
    return replace(recipe, origins=origins), recorded


def _print_unused(recipe: Recipe, origin: str | None, as_json: bool) -> None:
    from engine.recipe.unread import switched_off, unread

    unused = [value for value in unread(recipe) if origin in (None, value.origin)]
    silenced = [value for value in switched_off(recipe) if origin in (None, value.origin)]
    if as_json:
        print_json(
            {
                "kind": recipe.kind.name,
                "unused": [value.to_json() for value in unused],
                "switched_off": [value.to_json() for value in silenced],
            }
        )
        return
    for value in unused:
        fix = f"  [{value.instead}]" if value.instead else ""
        say(f"{value.origin:<11} {value.key}={_text(value.value)}  {value.reason}{fix}")
    if not unused:
        say("all values that are set have an effect")
    if silenced:
        names = ", ".join(value.key for value in silenced)
        say(f"without effect because of an override: {names}")


def _text(value: Any) -> str:
    from engine.reports.differences import text_of

    return text_of(value)


COMMAND = Command(config, Task.PREPARE)
