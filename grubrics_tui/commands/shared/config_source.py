"""A recipe by its name or file, or the one that a run was launched with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError, unknown_name
from engine.runs.rundir import RunDir, find_run, run_id_of, run_ids

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


def recipe_of_source(source: str, overrides: list[str], root: Path) -> tuple[Recipe, RunDir | None]:
    """A recipe of that name comes first: the ids of its runs often begin with it.

    A run keeps the values that were in effect at its launch, so the environment changes nothing.
    """
    from engine.launch.child import recipe_of
    from engine.recipe.recipe import find_config, load_recipe, recipe_names

    try:
        find_config(source)
    except UsageError as no_config:
        if not (names := run_ids(root)) or Path(source).suffix in (".yaml", ".yml"):
            raise no_config
        source = run_id_of(root, source)
        if not any(name.startswith(source) for name in names):
            known = [*recipe_names(), *names]
            raise unknown_name("run or recipe", source, known) from no_config
        run = find_run(root, source)
        kept = recipe_of(run)
        return (load_recipe(str(run.recipe), overrides, {}) if overrides else kept), run
    return load_recipe(source, overrides), None
