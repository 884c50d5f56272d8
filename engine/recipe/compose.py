"""Compose verl's configuration from a GRPO config, and add the values it implies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.recipe.curriculum import find_curriculum
from engine.recipe.keys import flatten, tables, unflatten
from engine.recipe.recipe import Origin, Recipe
from engine.runs.kinds import GRPO
from engine.runs.rundir import DETERMINISTIC_VARIABLE

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"
SAMPLER = "trainer.v1.sampler"
MANAGER = "reward.reward_manager"

OVERLONG_BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
FILTER = "algorithm.filter_groups"

EXTERNAL_LIB = "actor_rollout_ref.model.external_lib"
PHASED_ENGINE = "engine.train.phased_engine"
OWN_SAMPLER = "pkg://engine.train.sampler"
RECORDING_MANAGER = "RecordingRewardManager"
VERL_MANAGERS = ("naive", "dapo")

OWN_LOOPS = f"{ROLLOUT}.agent.agent_loop_config_path"
TEMPERATURE_SCHEDULE = "grubrics.temperature_schedule"
LENGTH_SCHEDULE = "grubrics.response_length_schedule"
_AGENT_LOOPS = Path(__file__).parents[1] / "train" / "agent_loops.yaml"

# verl's resource pools ask for this many CPUs per worker process, whatever the machine has.
CPUS_PER_WORKER = 3
# Every other actor (rollout server, agent loop, reward, queue) asks for one or fewer.
CPUS_FOR_ACTORS = 9


def verl_config(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """Return verl's configuration tree: the values of the recipe and those that they imply.

    Values set in the file, on the command line or in the environment do not change, except those
    that ``consequences`` lists. Our sections stay in the tree: verl ignores them, and the reward
    manager reads them.
    """
    implied = {**consequences(recipe, attempt_dir), **mixing(recipe)}
    return unflatten({**recipe.values, **implied})


def consequences(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """Return the values that follow from those of the recipe, by dotted key.

    Some of them replace values that a person set: ``file`` is added to the loggers, our reward
    manager replaces verl's, and ``val_only`` turns on validation before training.
    """
    values = recording(recipe, attempt_dir)
    values[f"{ROLLOUT}.seed"] = recipe.get("grubrics.seed")
    values |= deterministic_values(recipe)
    if recipe.get("grubrics.device") == "cpu":
        values |= on_cpu(recipe)
    values = {key: value for key, value in values.items() if not recipe.is_chosen(key)}
    values |= rewarding(recipe)
    if recipe.get("trainer.val_only"):  # verl reads it only when it validates before training.
        values["trainer.val_before_train"] = True
    return values | {"trainer.logger": with_file_logger(recipe.values["trainer.logger"])}


def recording(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """Return the values that record rollouts and select our agent loops and our sampler.

    verl's V1 trainer switches its TransferQueue on by itself.
    """
    return {
        "transfer_queue.enable": True,
        "trainer.rollout_data_dir": str(attempt_dir / "rollouts"),
        "trainer.validation_data_dir": str(attempt_dir / "validation"),
        f"{ROLLOUT}.agent.agent_loop_manager_class": (
            "engine.train.agent_loop.RecordingAgentLoopManager"
        ),
        OWN_LOOPS: str(_AGENT_LOOPS),
        **sampling(recipe),
    }


def rewarding(recipe: Recipe) -> dict[str, Any]:
    """Return the values that replace verl's ``naive`` or ``dapo`` by our reward manager.

    Our manager gives the same rewards. Any other manager stays as the recipe sets it. The default
    manager applies an overlong buffer. verl's ``naive`` has none: the preflight checks refuse a
    config that sets it together with a buffer.
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


def mixing(recipe: Recipe) -> dict[str, Any]:
    """Return the values by which verl reads its training files in the shares of the recipe, or in
    those of the phases of its curriculum.

    All epochs become one: each file has passes of its own.
    """
    shares, curriculum = recipe.get("grubrics.shares"), find_curriculum(recipe.get)
    if not shares and curriculum is None:
        return {}
    how: dict[str, Any] = {"data.mix.shares": shares}
    if curriculum is not None:
        parts = zip(curriculum.lengths, curriculum.phases, strict=True)
        libraries = recipe.listed(EXTERNAL_LIB)
        how = {
            "data.mix.phases": [[n, [phase.verifiable, phase.open]] for n, phase in parts],
            EXTERNAL_LIB: [*libraries, PHASED_ENGINE] if libraries else PHASED_ENGINE,
        }
    return {
        **how,
        "data.custom_cls.path": "pkg://engine.train.mixed_dataset",
        "data.custom_cls.name": "MixedDataset",
        "data.shuffle": False,
        "data.mix.files": recipe.listed("data.train_files"),
        "data.mix.seed": recipe.get("data.seed") or 0,
        "data.mix.epochs": recipe.get("trainer.total_epochs"),
        "trainer.total_epochs": 1,
    }


def sampling(recipe: Recipe) -> dict[str, Any]:
    """Return our sampler with the filter and refill settings that verl gives only to its own."""
    asynchronous = recipe.get("trainer.v1.trainer_mode") != "sync"
    filters = recipe.get(f"{FILTER}.enable")
    curriculum = find_curriculum(recipe.get)
    arguments = {
        "rollouts_per_prompt": recipe.get(f"{ROLLOUT}.n"),
        "max_failed_share": recipe.get("grubrics.max_failed_share"),
        "train_batch_size": recipe.get("data.train_batch_size"),
        "filter_groups_metric": recipe.get(f"{FILTER}.metric") if filters else None,
        "max_inflight_gen_batches": recipe.get(f"{FILTER}.max_inflight_gen_batches"),
        "sync_refill_failed_groups": recipe.get(f"{SAMPLER}.sync_refill_failed_groups"),
        "max_refill_batches": max_refill_batches(recipe),
        "scheduled": scheduled(recipe),
        "phase_ends": list(curriculum.ends) if curriculum else [],
    }
    return {
        f"{SAMPLER}.custom_sampler.path": OWN_SAMPLER,
        f"{SAMPLER}.custom_sampler.name": f"WatchfulReplayBuffer{'Async' if asynchronous else ''}",
        **{f"{SAMPLER}.sampler_kwargs.{name}": value for name, value in arguments.items()},
    }


def scheduled(recipe: Recipe) -> list[str]:
    """Return the sections of the schedules that the recipe sets."""
    sections = (TEMPERATURE_SCHEDULE, LENGTH_SCHEDULE)
    return [section for section in sections if recipe.get(f"{section}.steps")]


def max_refill_batches(recipe: Recipe) -> int:
    """Return how many times its batch a step may replace.

    DAPO's limit, ``max_num_gen_batches``, also counts the first generation of the batch.
    """
    if bounds_generations(recipe):
        return int(recipe.get(f"{FILTER}.max_num_gen_batches")) - 1
    return int(recipe.get("grubrics.max_refill_batches"))


def bounds_generations(recipe: Recipe) -> bool:
    """Whether DAPO's limit replaces ``grubrics.max_refill_batches``."""
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
        **tables()["on_cpu"]["grpo"],
        "trainer.n_gpus_per_node": workers,
        "ray_kwargs.ray_init.num_gpus": workers,
        "ray_kwargs.ray_init.num_cpus": CPUS_FOR_ACTORS + CPUS_PER_WORKER * workers,
        f"{ROLLOUT}.engine_kwargs.hf.rollouts_per_step": _rollouts_per_step(recipe, workers),
    }


def _rollouts_per_step(recipe: Recipe, servers: int) -> int | None:
    """Return how many rollouts a step requests from a single server, or None if that varies."""
    if servers > 1 or replaces_groups(recipe):
        return None
    prompts, n = recipe.get("data.train_batch_size"), recipe.get(f"{ROLLOUT}.n")
    return prompts * n if isinstance(prompts, int) and isinstance(n, int) else None


def with_file_logger(loggers: str | list[str]) -> list[str]:
    """Return the loggers with verl's ``file``, which writes the metrics that we read."""
    chosen = [loggers] if isinstance(loggers, str) else list(loggers)
    return chosen if "file" in chosen else [*chosen, "file"]


def last_step(config: Mapping[str, Any]) -> int | None:
    """Return the last step of the run, or None if the number of rows determines it."""
    steps = config["trainer"]["total_training_steps"]
    return None if steps is None else int(steps)


def effective(recipe: Recipe, attempt_dir: Path) -> Recipe:
    """Return ``recipe`` with its ``consequences``, for example those of ``grubrics.device=cpu``.

    Their origin is ``implied``, unless they equal the defaults.
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


_DETERMINISTIC = "grubrics.deterministic"


def deterministic_values(recipe: Recipe) -> dict[str, Any]:
    """The values of a GRPO run: verl's deterministic algorithms, and one seed for all that draw."""
    if not recipe.get(_DETERMINISTIC):
        return {}
    seed = recipe.get("grubrics.seed")
    return {
        **{f"{role}.fsdp_config.full_determinism": True for role in (ACTOR, REF)},
        **{f"{role}.fsdp_config.seed": seed for role in (ACTOR, REF)},
        f"{ACTOR}.data_loader_seed": seed,
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
    if grpo and recipe.get(f"{ROLLOUT}.full_determinism"):
        variables |= seed | {"VERL_FULL_DETERMINISM": "1", "VLLM_BATCH_INVARIANT": "1"}
    if recipe.get(_DETERMINISTIC):
        variables |= seed | {DETERMINISTIC_VARIABLE: "1", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
        if recipe.get("grubrics.device") == "cpu":
            variables["OMP_NUM_THREADS"] = env.get("OMP_NUM_THREADS") or "1"
    return variables
