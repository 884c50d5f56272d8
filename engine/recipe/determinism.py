"""What ``grubrics.deterministic`` implies: values of verl, and variables of every process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.recipe.recipe import Recipe
from engine.runs.kinds import GRPO
from engine.runs.rundir import DETERMINISTIC_VARIABLE

KEY = "grubrics.deterministic"
_POLICY = "actor_rollout_ref"


def deterministic_values(recipe: Recipe) -> dict[str, Any]:
    """The values of a GRPO run: verl's deterministic algorithms, and one seed for all that draw."""
    if not recipe.get(KEY):
        return {}
    seed, engines = recipe.get("grubrics.seed"), ("actor.fsdp_config", "ref.fsdp_config")
    return {
        **{f"{_POLICY}.{engine}.full_determinism": True for engine in engines},
        **{f"{_POLICY}.{engine}.seed": seed for engine in engines},
        f"{_POLICY}.actor.data_loader_seed": seed,
        "data.seed": seed,
    }


def deterministic_variables(recipe: Recipe, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the trainer and its workers; empty for a run that need not be deterministic.

    Python takes its hash seed, cuBLAS its workspace, and vLLM its kernels from the environment.
    Sums depend on the number of threads: on a CPU it is 1, unless ``env`` sets another.
    """
    grpo = recipe.kind == GRPO
    number = int(recipe.get("grubrics.seed" if grpo else "training.seed"))
    seed = {"PYTHONHASHSEED": str(number % 2**32)}
    variables: dict[str, str] = {}
    if grpo and recipe.get(f"{_POLICY}.rollout.full_determinism"):
        variables |= seed | {"VERL_FULL_DETERMINISM": "1", "VLLM_BATCH_INVARIANT": "1"}
    if recipe.get(KEY):
        variables |= seed | {DETERMINISTIC_VARIABLE: "1", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
        if recipe.get("grubrics.device") == "cpu":
            variables["OMP_NUM_THREADS"] = env.get("OMP_NUM_THREADS") or "1"
    return variables
