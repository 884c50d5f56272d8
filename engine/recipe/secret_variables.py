"""The kept references to secrets as variables of the run's processes."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from omegaconf import OmegaConf

from engine.base.errors import UsageError
from engine.recipe.recipe import Recipe
from engine.recipe.secret_references import VARIABLES


def into_environment(recipe: Recipe, env: MutableMapping[str, str]) -> Recipe:
    """Set the kept references' variables in ``env``; ``recipe`` without them.

    Processes that inherit ``env`` have them, and no configuration that is printed holds them.
    """
    tree = OmegaConf.create(recipe.tree)
    for key in recipe.secret_references:
        env[key.removeprefix(VARIABLES)] = str(OmegaConf.select(tree, key))
    rest = {
        key: value for key, value in recipe.values.items() if key not in recipe.secret_references
    }
    return replace(recipe, values=rest, secret_references=frozenset())


def require_none(recipe: Recipe, where: str) -> None:
    """Raise UsageError where a secret would have to be sent to a cluster, which shows it."""
    for key in sorted(recipe.secret_references):
        name = key.removeprefix(VARIABLES)
        raise UsageError(
            f"{where}: {key} stands for a secret, and what a cluster's processes are given shows "
            f"in its dashboard; set {name} in its nodes' environment or the project's .env instead"
        )
