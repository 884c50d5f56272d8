"""Imported by every process of a run through ``VERL_USE_EXTERNAL_MODULES``."""

from __future__ import annotations

import os
from typing import Any

from engine.run.host.programs import search_folder_last
from engine.run.run import DETERMINISTIC_VARIABLE
from engine.train import patches, skipped_updates
from engine.train.environment import use_deterministic_algorithms
from engine.train.final_checkpoint import allow_checkpoint_classes


def _replica() -> type[Any]:
    from engine.train.hf_rollout import HFReplica

    return HFReplica


def install() -> None:
    """Register the ``hf`` rollout, and the CPU platform when this is a CPU run."""
    search_folder_last()
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD"):
        allow_checkpoint_classes()
    if DETERMINISTIC_VARIABLE in os.environ:
        use_deterministic_algorithms()
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    RolloutReplicaRegistry.register("hf", _replica)
    patches.register_adapter()
    patches.apply_to_sockets()
    patches.run_rewards_apart()
    patches.keep_training_without_wandb()
    patches.log_rewards_with_steps()
    if skipped_updates.VARIABLE in os.environ:
        patches.count_skipped_updates()
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import engine.train.cpu_platform  # noqa: F401  (registers itself)

        patches.apply_on_cpu()


install()
