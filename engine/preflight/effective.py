"""The recipe as the trainer will see it, with what follows from its own values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.launch.compose import verl_config
from engine.launch.keys import flatten
from engine.launch.recipe import Recipe


def effective(recipe: Recipe, attempt_dir: Path) -> Recipe:
    """``recipe`` with the values that, say, ``grubrics.device=cpu`` brings with it."""
    if recipe.kind != "grpo":
        return recipe
    return dataclasses.replace(recipe, values=dict(flatten(verl_config(recipe, attempt_dir))))
