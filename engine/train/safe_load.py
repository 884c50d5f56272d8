"""What a checkpoint of verl may hold where torch loads with ``weights_only``: data, nothing to run.

Tensors, sharded ones too, and the states of random generators. Any other class is refused by torch.
"""

from __future__ import annotations

from typing import Any


def allow_checkpoint_classes() -> None:
    """Let ``weights_only`` load what verl saves on one rank and on several, for SFT and GRPO."""
    import numpy as np
    import torch
    import torch.distributed.tensor  # Allows DTensor and the layout of its shards.

    reconstruct: Any = np.zeros(0).__reduce__()[0]
    kinds = [np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    torch.serialization.add_safe_globals([reconstruct, *kinds])
