"""``grubrics-tui config``: print the values of a config or run with their origins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, OverridesArgument, RunsOption
from grubrics_tui.commands.shared.output import print_json, say

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


ORIGINS = ("default", "file", "cli", "environment", "implied")


def config(
    name: Annotated[str, typer.Argument(metavar="CONFIG|RUN", help="A recipe, or the id of a run")],
    overrides: OverridesArgument = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="Only values that were set and that nothing reads")
    ] = False,
    origin: Annotated[
        str | None, typer.Option(metavar="|".join(ORIGINS), help="Only values of this origin")
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print every effective value and where it came from; --unused tells which have no effect."""
    if origin is not None and origin not in ORIGINS:
        raise UsageError(f"--origin {origin}: origins are {', '.join(ORIGINS)}")
    recipe, values = _read(name, overrides or [], runs_root(runs))
    if unused:
        _tell_unused(recipe, origin, as_json)
        return
    shown = {key: one for key, one in values.items() if origin in (None, one["origin"])}
    if as_json:
        print_json({"kind": recipe.kind.name, "values": shown})
        return
    for key, one in shown.items():
        say(f"{one['origin']:<11} {key}={_text(one['value'])}")


def _read(
    name: str, overrides: list[str], root: Path
) -> tuple[Recipe, Mapping[str, Mapping[str, Any]]]:
    """A recipe with its values as a launch from here would have them; of a run those it had."""
    from engine.recipe.frozen import config_of
    from engine.recipe.recipe import find_config, load_recipe

    try:
        find_config(name)
    except UsageError as error:
        run = _run(name, root)
        if run is None:
            raise error
        if overrides:
            raise UsageError(f"run '{run.id}' has its values already; give a recipe") from None
        return _launched(run)
    recipe = load_recipe(name, overrides)
    return recipe, config_of(recipe, root / "RUN" / "attempt_1")


def _run(name: str, root: Path) -> RunDir | None:
    try:
        return find_run(root, name)
    except UsageError:
        return None


def _launched(run: RunDir) -> tuple[Recipe, Mapping[str, Mapping[str, Any]]]:
    """What the manifest holds, and a recipe of it with the origins that it names."""
    from dataclasses import replace

    from engine.recipe.recipe import load_recipe

    known = run.read_manifest().get("config", {})
    if not known:
        raise UsageError(f"{run.manifest}: holds no configuration")
    recipe = load_recipe(str(run.recipe), (), {})
    origins = {
        key: known[key]["origin"] if recipe.is_chosen(key) and key in known else kept
        for key, kept in recipe.origins.items()
    }
    return replace(recipe, origins=origins), known


def _tell_unused(recipe: Recipe, origin: str | None, as_json: bool) -> None:
    from engine.recipe.unread import switched_off, unread

    found = [one for one in unread(recipe) if origin in (None, one.origin)]
    silenced = [value for value in switched_off(recipe) if origin in (None, value.origin)]
    if as_json:
        print_json(
            {
                "kind": recipe.kind.name,
                "unused": [one.to_json() for one in found],
                "switched_off": [value.to_json() for value in silenced],
            }
        )
        return
    for one in found:
        way = f"  [{one.instead}]" if one.instead else ""
        say(f"{one.origin:<11} {one.key}={_text(one.value)}  {one.reason}{way}")
    if not found:
        say("every value that was set has an effect")
    if silenced:
        names = ", ".join(value.key for value in silenced)
        say(f"switched off by an override, with effect in the file alone: {names}")


def _text(value: Any) -> str:
    from engine.reports.differences import text_of

    return text_of(value)


COMMAND = Command(config, Task.PREPARE)
