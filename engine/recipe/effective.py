"""The recipe as the trainer will see it, with what follows from its own values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.recipe.compose import consequences
from engine.recipe.keys import flatten, unflatten
from engine.recipe.recipe import Origin, Recipe
from engine.runs.kinds import GRPO


def effective(recipe: Recipe, attempt_dir: Path) -> Recipe:
    """``recipe`` with the values that, say, ``grubrics.device=cpu`` brings with it.

    Their origin is ``implied``, unless they are verl's defaults anyway.
    """
    if recipe.kind != GRPO:
        return recipe
    following = consequences(recipe, attempt_dir)
    values = dict(flatten(unflatten({**recipe.values, **following})))
    implied: dict[str, Origin] = {
        key: "implied"
        for key, value in values.items()
        if not recipe.is_chosen(key) and value != recipe.get(key, _ABSENT)
    }
    return dataclasses.replace(recipe, values=values, origins={**recipe.origins, **implied})


_ABSENT = object()
