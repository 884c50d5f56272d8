"""Trainer side of the ``hf`` rollout: carries the trainer's weights to the server actor."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout

from engine.train.replica import server_name


class HFRollout(BaseRollout):
    """Lives in the training worker. Each worker feeds the server of its own rank."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self.server: Any = None

    async def resume(self, tags: list[str]) -> None:
        if "weights" in tags:
            await self._handle().wake_up.remote(tags)

    async def release(self) -> None:
        await self._handle().sleep.remote()

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        peft_config: Any = None,
        base_sync_done: bool = True,
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Send full weights, or with ``peft_config`` the LoRA adapter alone.

        Every rank must walk the generator: gathering a sharded tensor is collective.
        """
        if wire_format != "named_tensors":
            raise ValueError(f"rollout.name=hf cannot read the wire format {wire_format!r}")
        # With rollout.load_format=dummy verl sends the base weights under LoRA's wrapped names.
        state = {name.replace(".base_layer.", "."): w.detach().cpu() for name, w in weights}
        if peft_config is not None and base_sync_done:
            await self._handle().load_adapter.remote(state, peft_config, global_steps)
        else:
            await self._handle().load_weights.remote(state, global_steps)

    def _handle(self) -> Any:
        if self.server is None:  # the server starts after this worker
            self.server = ray.get_actor(server_name(self.replica_rank))
        return self.server
