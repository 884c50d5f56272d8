"""What every process of a run imports through ``VERL_USE_EXTERNAL_MODULES``."""

from __future__ import annotations

import os
from typing import Any

from engine.train import patches


def _replica() -> type[Any]:
    from engine.train.replica import HFReplica

    return HFReplica


def _allow_random_states() -> None:
    """numpy's, which verl saves with each step, are data: ``weights_only`` may load them."""
    import numpy as np
    import torch

    reconstruct: Any = np.zeros(0).__reduce__()[0]
    kinds = [np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    torch.serialization.add_safe_globals([reconstruct, *kinds])


def install() -> None:
    """Register the ``hf`` rollout, and the CPU platform when this is a CPU run."""
    _allow_random_states()
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    RolloutReplicaRegistry.register("hf", _replica)
    patches.register_adapter()
    patches.apply_to_sockets()
    patches.run_rewards_apart()
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import engine.train.cpu_platform  # noqa: F401  (registers itself)

        patches.apply_on_cpu()


install()
