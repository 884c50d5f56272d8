"""Find the config to start from: by name or path, or the config of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError, unknown_name
from engine.runs.rundir import RunDir, find_run, run_id_of, run_ids

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


def recipe_of_source(
    source: str, overrides: Sequence[str], root: Path
) -> tuple[Recipe, RunDir | None]:
    """Return the config, and the run if ``source`` names one.

    A config of that name takes precedence, because run IDs often begin with the config's name. A
    run keeps the values in effect at its launch, so today's environment does not change them.
    """
    from engine.launch.rerun import recipe_of
    from engine.recipe.config_files import config_names, find_config
    from engine.recipe.recipe import load_recipe

    try:
        find_config(source)
    except UsageError as no_config:
        if not (names := run_ids(root)) or Path(source).suffix in (".yaml", ".yml"):
            raise no_config
        source = run_id_of(root, source)
        if not any(name.startswith(source) for name in names):
            raise unknown_name("run or config", source, [*config_names(), *names]) from no_config
        run = find_run(root, source)
        recipe = recipe_of(run)
        if overrides:
            recipe = replace(load_recipe(str(run.recipe), overrides, {}), name=recipe.name)
        return recipe, run
    return load_recipe(source, overrides), None
