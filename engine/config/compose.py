"""Compose verl's configuration from a GRPO config, and add the values it implies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.config.curriculum import find_curriculum
from engine.config.keys import flatten, tables, unflatten
from engine.config.load import Config
from engine.run.kinds import GRPO
from engine.run.manifest import Origin
from engine.run.run import DETERMINISTIC_VARIABLE

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


def verl_config(config: Config, attempt_dir: Path) -> dict[str, Any]:
    """Return verl's configuration tree: the values of the config and those that they imply.

    Values set in the file, on the command line or in the environment do not change, except those
    that ``consequences`` lists. Our sections stay in the tree: verl ignores them, and the reward
    manager reads them.
    """
    implied = {**consequences(config, attempt_dir), **mixing(config)}
    return unflatten({**config.values, **implied})


def consequences(config: Config, attempt_dir: Path) -> dict[str, Any]:
    """Return the values that follow from those of the config, by dotted key.

    Some of them replace values that a person set: ``file`` is added to the loggers, our reward
    manager replaces verl's, and ``val_only`` turns on validation before training.
    """
    values = recording(config, attempt_dir)
    values[f"{ROLLOUT}.seed"] = config.get("grubrics.seed")
    values |= deterministic_values(config)
    if config.get("grubrics.device") == "cpu":
        values |= on_cpu(config)
    values = {key: value for key, value in values.items() if not config.is_chosen(key)}
    values |= rewarding(config)
    if config.get("trainer.val_only"):  # verl reads it only when it validates before training.
        values["trainer.val_before_train"] = True
    return values | {"trainer.logger": with_file_logger(config.values["trainer.logger"])}


def recording(config: Config, attempt_dir: Path) -> dict[str, Any]:
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
        **sampling(config),
    }


def rewarding(config: Config) -> dict[str, Any]:
    """Return the values that replace verl's ``naive`` or ``dapo`` by our reward manager.

    Our manager gives the same rewards. Any other manager stays as the config sets it. The default
    manager applies an overlong buffer. verl's ``naive`` has none: the preflight checks refuse a
    config that sets it together with a buffer.
    """
    name = config.get(f"{MANAGER}.name")
    own_module = config.get(f"{MANAGER}.module.path") is not None
    if own_module or name not in (*VERL_MANAGERS, RECORDING_MANAGER):
        return {}
    shapes = config.get(f"{OVERLONG_BUFFER}.enable")
    if shapes and name == "naive" and config.is_chosen(f"{MANAGER}.name"):
        return {}
    return {
        f"{MANAGER}.source": "importlib",
        f"{MANAGER}.name": RECORDING_MANAGER,
        f"{MANAGER}.module.path": "pkg://engine.train.reward_entry",
    }


def mixing(config: Config) -> dict[str, Any]:
    """Return the values by which verl reads its training files in the shares of the config, or in
    those of the phases of its curriculum.

    All epochs become one: each file has passes of its own.
    """
    shares, curriculum = config.get("grubrics.shares"), find_curriculum(config.get)
    if not shares and curriculum is None:
        return {}
    how: dict[str, Any] = {"data.mix.shares": shares}
    if curriculum is not None:
        parts = zip(curriculum.lengths, curriculum.phases, strict=True)
        libraries = config.listed(EXTERNAL_LIB)
        how = {
            "data.mix.phases": [[n, [phase.verifiable, phase.open]] for n, phase in parts],
            EXTERNAL_LIB: [*libraries, PHASED_ENGINE] if libraries else PHASED_ENGINE,
        }
    return {
        **how,
        "data.custom_cls.path": "pkg://engine.train.mixed_dataset",
        "data.custom_cls.name": "MixedDataset",
        "data.shuffle": False,
        "data.mix.files": config.listed("data.train_files"),
        "data.mix.seed": config.get("data.seed") or 0,
        "data.mix.epochs": config.get("trainer.total_epochs"),
        "trainer.total_epochs": 1,
    }


def sampling(config: Config) -> dict[str, Any]:
    """Return our sampler with the filter and refill settings that verl gives only to its own."""
    asynchronous = config.get("trainer.v1.trainer_mode") != "sync"
    filters = config.get(f"{FILTER}.enable")
    curriculum = find_curriculum(config.get)
    arguments = {
        "rollouts_per_prompt": config.get(f"{ROLLOUT}.n"),
        "max_failed_share": config.get("grubrics.max_failed_share"),
        "train_batch_size": config.get("data.train_batch_size"),
        "filter_groups_metric": config.get(f"{FILTER}.metric") if filters else None,
        "max_inflight_gen_batches": config.get(f"{FILTER}.max_inflight_gen_batches"),
        "sync_refill_failed_groups": config.get(f"{SAMPLER}.sync_refill_failed_groups"),
        "max_refill_batches": max_refill_batches(config),
        "scheduled": scheduled(config),
        "phase_ends": list(curriculum.ends) if curriculum else [],
    }
    return {
        f"{SAMPLER}.custom_sampler.path": OWN_SAMPLER,
        f"{SAMPLER}.custom_sampler.name": f"WatchfulReplayBuffer{'Async' if asynchronous else ''}",
        **{f"{SAMPLER}.sampler_kwargs.{name}": value for name, value in arguments.items()},
    }


def scheduled(config: Config) -> list[str]:
    """Return the sections of the schedules that the config sets."""
    sections = (TEMPERATURE_SCHEDULE, LENGTH_SCHEDULE)
    return [section for section in sections if config.get(f"{section}.steps")]


def max_refill_batches(config: Config) -> int:
    """Return how many times its batch a step may replace.

    DAPO's limit, ``max_num_gen_batches``, also counts the first generation of the batch.
    """
    if bounds_generations(config):
        return int(config.get(f"{FILTER}.max_num_gen_batches")) - 1
    return int(config.get("grubrics.max_refill_batches"))


def bounds_generations(config: Config) -> bool:
    """Whether DAPO's limit replaces ``grubrics.max_refill_batches``."""
    generations = int(config.get(f"{FILTER}.max_num_gen_batches") or 0)
    return bool(config.get(f"{FILTER}.enable")) and generations > 0


def replaces_groups(config: Config) -> bool:
    """Whether a step may replace groups: the asynchronous modes always do."""
    keys = (f"{FILTER}.enable", f"{SAMPLER}.sync_refill_failed_groups")
    asynchronous = config.get("trainer.v1.trainer_mode") != "sync"
    return asynchronous or any(config.get(key) for key in keys)


def on_cpu(config: Config) -> dict[str, Any]:
    """Consequences of ``grubrics.device=cpu``; docs/verl.md gives the reason for each."""
    workers = int(config.get("trainer.n_gpus_per_node", 1))
    if not config.is_chosen("trainer.n_gpus_per_node"):
        workers = 1
    rollouts = None  # Those of a step, from a single server; where groups are replaced they vary.
    prompts, n = config.get("data.train_batch_size"), config.get(f"{ROLLOUT}.n")
    is_fixed = workers <= 1 and not replaces_groups(config)
    if is_fixed and isinstance(prompts, int) and isinstance(n, int):
        rollouts = prompts * n
    return {
        **tables()["on_cpu"]["grpo"],
        "trainer.n_gpus_per_node": workers,
        "ray_kwargs.ray_init.num_gpus": workers,
        "ray_kwargs.ray_init.num_cpus": CPUS_FOR_ACTORS + CPUS_PER_WORKER * workers,
        f"{ROLLOUT}.engine_kwargs.hf.rollouts_per_step": rollouts,
    }


def with_file_logger(loggers: str | list[str]) -> list[str]:
    """Return the loggers with verl's ``file``, which writes the metrics that we read."""
    chosen = [loggers] if isinstance(loggers, str) else list(loggers)
    return chosen if "file" in chosen else [*chosen, "file"]


def last_step(config: Mapping[str, Any]) -> int | None:
    """Return the last step of the run, or None if the number of rows determines it."""
    steps = config["trainer"]["total_training_steps"]
    return None if steps is None else int(steps)


@lru_cache(maxsize=8)
def effective(config: Config, attempt_dir: Path) -> Config:
    """Return ``config`` with its ``consequences``, for example those of ``grubrics.device=cpu``.

    Their origin is ``implied``, unless they equal the defaults.
    """
    if config.kind != GRPO or config.is_effective:
        return config
    following = consequences(config, attempt_dir)
    values = dict(flatten(unflatten({**config.values, **following})))
    implied: dict[str, Origin] = {
        key: "implied"
        for key, value in values.items()
        if not config.is_chosen(key) and value != config.get(key, _ABSENT)
    }
    origins = {**config.origins, **implied}
    return dataclasses.replace(config, values=values, origins=origins, is_effective=True)


_ABSENT = object()


_DETERMINISTIC = "grubrics.deterministic"


def deterministic_values(config: Config) -> dict[str, Any]:
    """The values of a GRPO run: verl's deterministic algorithms, and one seed for all that draw."""
    if not config.get(_DETERMINISTIC):
        return {}
    seed = config.get("grubrics.seed")
    return {
        **{f"{role}.fsdp_config.full_determinism": True for role in (ACTOR, REF)},
        **{f"{role}.fsdp_config.seed": seed for role in (ACTOR, REF)},
        f"{ACTOR}.data_loader_seed": seed,
        "data.seed": seed,
    }


def deterministic_variables(config: Config, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the trainer and its workers; empty for a run that need not be deterministic.

    Python takes its hash seed, cuBLAS its workspace, and vLLM its kernels from the environment.
    Sums depend on the number of threads: on a CPU it is 1, unless ``env`` sets another.
    """
    grpo = config.kind == GRPO
    number = int(config.get("grubrics.seed" if grpo else "training.seed"))
    seed = {"PYTHONHASHSEED": str(number % 2**32)}
    variables: dict[str, str] = {}
    if grpo and config.get(f"{ROLLOUT}.full_determinism"):
        variables |= seed | {"VERL_FULL_DETERMINISM": "1", "VLLM_BATCH_INVARIANT": "1"}
    if config.get(_DETERMINISTIC):
        variables |= seed | {DETERMINISTIC_VARIABLE: "1", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
        if config.get("grubrics.device") == "cpu":
            variables["OMP_NUM_THREADS"] = env.get("OMP_NUM_THREADS") or "1"
    return variables
