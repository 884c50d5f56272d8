"""Where a recipe's files are: what it trains on, and what it writes."""

from __future__ import annotations

from pathlib import Path

from engine.recipe.recipe import Recipe

DATA_KEYS = ("data.train_files", "data.val_files", "data.train_file", "data.val_file")
"""Files that are read as tables: nothing in them is executed."""


def data_files(recipe: Recipe) -> list[Path]:
    """The files a recipe trains and validates on."""
    values = [recipe.get(key) for key in DATA_KEYS]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    return [Path(name) for name in names if name]


def checkpoint_dir(recipe: Recipe) -> str:
    """Where the recipe's checkpoints go."""
    return str(recipe.get(recipe.kind.checkpoint_key))
