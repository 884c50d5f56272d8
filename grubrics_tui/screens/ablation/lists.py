"""What an ablation can be chosen from: ablations, bases, known arms; each with a word about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.ablations.plan import AblationPlan

NEW = "new ablation"
_MOST_RUNS = 100


def find_ablations() -> Iterator[tuple[str, str]]:
    """``NEW``, then the ablations of this folder, the newest first."""
    from engine.ablations.plan import list_plans

    yield NEW, "variants of a config, each with several seeds"
    for plan in list_plans():
        yield plan.id, _about(plan)


def find_bases(root: Path) -> Iterator[tuple[str, str]]:
    """Configs, then the newest runs of a folder."""
    from engine.recipe.config_files import list_configs
    from engine.runs.registry import list_runs

    for config in list_configs():
        yield config.name, f"{config.kind:<6}{config.description}"
    for info in islice(list_runs(root), _MOST_RUNS):
        yield info.id, f"run of {info.recipe}, {info.state.word}"


def find_presets() -> Iterator[tuple[str, str]]:
    """The known ablations of the GRubrics reward, with their overrides."""
    from engine.ablations.plan import PRESETS, SHORT

    for name in SHORT.values():
        yield name, " ".join(PRESETS[name])


def _about(plan: AblationPlan) -> str:
    """When it was planned, and its arms."""
    written = (plan.folder / "plan.json").stat().st_mtime
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(written))
    arms = ", ".join(arm.name for arm in plan.arms)
    return f"{day}  {len(plan.seeds)} seeds  {arms}"
