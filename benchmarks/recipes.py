"""How long the references of a recipe take to fill in, ours beside OmegaConf, in CPU time.

    python benchmarks/recipes.py [RECIPE ...]

Best of ten. ``load`` is all of ``load_recipe``: reading, merging, resolving and checking. ``again``
is the same where the process has loaded the recipe before, as the checklist and an ablation do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from omegaconf import OmegaConf

from engine.recipe import recipe, references
from engine.recipe.keys import unflatten
from engine.recipe.references import resolve

_REPEATS = 10


def merged_values(name: str) -> dict[str, Any]:
    """The values of a recipe as they are before their references are filled in."""
    merged: list[dict[str, Any]] = []

    def record(values: dict[str, Any]) -> dict[str, Any]:
        merged.append(values)
        return resolve(values)

    original, recipe.resolve = recipe.resolve, record  # type: ignore[assignment]
    try:
        recipe.load_recipe(name, env={})
    finally:
        recipe.resolve = original
    return merged[-1]


def resolve_with_omegaconf(tree: dict[str, Any]) -> object:
    return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


def forget() -> None:
    """As in a new process: nothing is known of any recipe."""
    recipe._parse.cache_clear()
    references._resolve_text.cache_clear()


def cpu_ms(action: Callable[[], object], prepare: Callable[[], None] = forget) -> float:
    spent = []
    for _ in range(_REPEATS):
        prepare()
        started = time.process_time()
        action()
        spent.append(time.process_time() - started)
    return 1000 * min(spent)


def main(names: Sequence[str]) -> int:
    head = f"{'ours ms':>8} {'OmegaConf ms':>12} {'load ms':>8} {'again ms':>8}"
    print(f"{'recipe':<20} {'values':>6} {head}")
    for name in names or ("grpo_tiny", "sft_tiny"):
        values = merged_values(name)
        ours = cpu_ms(partial(resolve, values))
        theirs = cpu_ms(partial(resolve_with_omegaconf, unflatten(values)))
        loading = cpu_ms(partial(recipe.load_recipe, name, env={}))
        again = cpu_ms(partial(recipe.load_recipe, name, env={}), lambda: None)
        figures = f"{ours:>8.1f} {theirs:>12.1f} {loading:>8.1f} {again:>8.1f}"
        print(f"{name:<20} {len(values):>6} {figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
