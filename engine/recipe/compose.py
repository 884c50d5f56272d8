"""Compose verl's configuration from a GRPO config, and add the values it implies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.recipe.keys import flatten, unflatten
from engine.recipe.recipe import Origin, Recipe
from engine.runs.kinds import GRPO

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"
SAMPLER = "trainer.v1.sampler"
MANAGER = "reward.reward_manager"

OVERLONG_BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
FILTER = "algorithm.filter_groups"

OWN_SAMPLER = "pkg://engine.train.sampler"
SAMPLER_KWARGS = (
    "rollouts_per_prompt",
    "max_failed_share",
    "train_batch_size",
    "filter_groups_metric",
    "max_inflight_gen_batches",
    "sync_refill_failed_groups",
    "max_refill_batches",
)
RECORDING_MANAGER = "RecordingRewardManager"
VERL_MANAGERS = ("naive", "dapo")

# verl's resource pools ask for this many CPUs per worker process, whatever the machine has.
CPUS_PER_WORKER = 3
# Every other actor (rollout server, agent loop, reward, queue) asks for one or fewer.
CPUS_FOR_ACTORS = 9


def verl_config(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """verl's configuration tree: the recipe, plus what follows from it.

    A value the recipe sets in file, command line or environment is never changed, but for those
    that ``consequences`` names. Our own sections stay in the tree: verl ignores them and the reward
    manager reads them.
    """
    return unflatten({**recipe.values, **consequences(recipe, attempt_dir)})


def consequences(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """The values that follow from the recipe's own, by dotted key.

    A person may have set some of them: ``file`` is added to the loggers, our reward manager stands
    for verl's, and a run that only validates does so before it would train.
    """
    found = recording(recipe, attempt_dir)
    found[f"{ROLLOUT}.seed"] = recipe.get("grubrics.seed")
    if recipe.get("grubrics.device") == "cpu":
        found |= on_cpu(recipe)
    found = {key: value for key, value in found.items() if not recipe.is_chosen(key)}
    found |= rewarding(recipe)
    if recipe.get("trainer.val_only"):  # verl looks at it only while it validates before training
        found["trainer.val_before_train"] = True
    return found | {"trainer.logger": with_file_logger(recipe.values["trainer.logger"])}


def recording(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """What makes a run watchable: dumps and our sampler.

    verl's V1 trainer switches its TransferQueue on by itself.
    """
    return {
        "transfer_queue.enable": True,
        "trainer.rollout_data_dir": str(attempt_dir / "rollouts"),
        "trainer.validation_data_dir": str(attempt_dir / "validation"),
        f"{ROLLOUT}.agent.agent_loop_manager_class": (
            "engine.train.agent_loop.RecordingAgentLoopManager"
        ),
        **sampling(recipe),
    }


def rewarding(recipe: Recipe) -> dict[str, Any]:
    """Our reward manager in the place of verl's ``naive`` and ``dapo``, whose rewards it gives;
    none for any other manager, which stays as the recipe has it.

    Where nobody chose a manager, an overlong buffer has its effect. verl's ``naive`` has none: who
    chooses it together with a buffer is refused by the checklist.
    """
    name = recipe.get(f"{MANAGER}.name")
    own_module = recipe.get(f"{MANAGER}.module.path") is not None
    if own_module or name not in (*VERL_MANAGERS, RECORDING_MANAGER):
        return {}
    shapes = recipe.get(f"{OVERLONG_BUFFER}.enable")
    if shapes and name == "naive" and recipe.is_chosen(f"{MANAGER}.name"):
        return {}
    return {
        f"{MANAGER}.source": "importlib",
        f"{MANAGER}.name": RECORDING_MANAGER,
        f"{MANAGER}.module.path": "pkg://engine.train.reward_entry",
    }


def sampling(recipe: Recipe) -> dict[str, Any]:
    """Our sampler, with what verl tells only its own: whom to filter, and what it may replace."""
    asynchronous = recipe.get("trainer.v1.trainer_mode") != "sync"
    filters = recipe.get(f"{FILTER}.enable")
    given = {
        "rollouts_per_prompt": recipe.get(f"{ROLLOUT}.n"),
        "max_failed_share": recipe.get("grubrics.max_failed_share"),
        "train_batch_size": recipe.get("data.train_batch_size"),
        "filter_groups_metric": recipe.get(f"{FILTER}.metric") if filters else None,
        "max_inflight_gen_batches": recipe.get(f"{FILTER}.max_inflight_gen_batches"),
        "sync_refill_failed_groups": recipe.get(f"{SAMPLER}.sync_refill_failed_groups"),
        "max_refill_batches": max_refill_batches(recipe),
    }
    return {
        f"{SAMPLER}.custom_sampler.path": OWN_SAMPLER,
        f"{SAMPLER}.custom_sampler.name": f"WatchfulReplayBuffer{'Async' if asynchronous else ''}",
        **{f"{SAMPLER}.sampler_kwargs.{name}": value for name, value in given.items()},
    }


def max_refill_batches(recipe: Recipe) -> int:
    """How many times its batch a step may replace. DAPO's own bound, where the recipe sets it,
    counts the first generation of the batch too."""
    if bounds_generations(recipe):
        return int(recipe.get(f"{FILTER}.max_num_gen_batches")) - 1
    return int(recipe.get("grubrics.max_refill_batches"))


def bounds_generations(recipe: Recipe) -> bool:
    """Whether DAPO's own bound holds in place of ``grubrics.max_refill_batches``."""
    generations = int(recipe.get(f"{FILTER}.max_num_gen_batches") or 0)
    return bool(recipe.get(f"{FILTER}.enable")) and generations > 0


def replaces_groups(recipe: Recipe) -> bool:
    """Whether a step may replace groups: the asynchronous modes always do."""
    keys = (f"{FILTER}.enable", f"{SAMPLER}.sync_refill_failed_groups")
    asynchronous = recipe.get("trainer.v1.trainer_mode") != "sync"
    return asynchronous or any(recipe.get(key) for key in keys)


def on_cpu(recipe: Recipe) -> dict[str, Any]:
    """Consequences of ``grubrics.device=cpu``; docs/verl.md gives the reason for each."""
    workers = int(recipe.get("trainer.n_gpus_per_node", 1))
    if not recipe.is_chosen("trainer.n_gpus_per_node"):
        workers = 1
    return {
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": workers,
        "ray_kwargs.ray_init.num_gpus": workers,
        "ray_kwargs.ray_init.num_cpus": CPUS_FOR_ACTORS + CPUS_PER_WORKER * workers,
        "ray_kwargs.ray_init.include_dashboard": False,
        "data.dataloader_num_workers": 0,
        "reward.num_workers": 1,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        f"{ROLLOUT}.name": "hf",
        f"{ROLLOUT}.dtype": "float32",
        f"{ROLLOUT}.load_format": "auto",
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
        f"{ROLLOUT}.engine_kwargs.hf.rollouts_per_step": _rollouts_per_step(recipe, workers),
        f"{ROLLOUT}.agent.num_workers": 1,
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.use_remove_padding": False,
        f"{ACTOR}.use_torch_compile": False,
        f"{ACTOR}.fsdp_config.use_torch_compile": False,
        f"{ACTOR}.fsdp_config.mixed_precision.param_dtype": "fp32",
        f"{REF}.strategy": "fsdp2",
        f"{REF}.use_torch_compile": False,
        f"{REF}.fsdp_config.use_torch_compile": False,
        f"{REF}.fsdp_config.mixed_precision.param_dtype": "fp32",
    }


def _rollouts_per_step(recipe: Recipe, servers: int) -> int | None:
    """How many rollouts the server will be asked for at once, where that is certain."""
    if servers > 1 or replaces_groups(recipe):
        return None
    prompts, n = recipe.get("data.train_batch_size"), recipe.get(f"{ROLLOUT}.n")
    return prompts * n if isinstance(prompts, int) and isinstance(n, int) else None


def with_file_logger(loggers: str | list[str]) -> list[str]:
    """verl's ``file`` logger is where the run's numbers are read from, so it is always on."""
    chosen = [loggers] if isinstance(loggers, str) else list(loggers)
    return chosen if "file" in chosen else [*chosen, "file"]


def last_step(config: Mapping[str, Any]) -> int | None:
    """The step at which the run is complete, where the configuration alone says so."""
    steps = config["trainer"]["total_training_steps"]
    return None if steps is None else int(steps)


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
