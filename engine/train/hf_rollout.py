"""The ``hf`` rollout: verl's replica that starts the server, and the sender of its weights."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.plugin.platform import get_platform
from verl.utils.device import get_resource_name
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from engine.train.hf_server import HFServer, ServerConfig

MAX_BATCH = 64


def server_name(replica_rank: int, suffix: str = "") -> str:
    """Return the Ray name under which ``HFRollout`` finds its server."""
    return f"hf_server_{replica_rank}{suffix}"


class HFReplica(RolloutReplica):
    """Starts one HFServer actor beside the worker whose device it shares; no tensor parallelism."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(
                "rollout.name=hf runs one model copy per process: set "
                "actor_rollout_ref.rollout.tensor_model_parallel_size=1"
            )
        server = (
            ray.remote(HFServer)
            .options(
                name=server_name(self.replica_rank, self.name_suffix),
                num_cpus=1,
                max_concurrency=self.max_concurrency,
                runtime_env={"env_vars": await self._device_variables()},
            )
            .remote(self._server_config())
        )
        await server.ready.remote()
        self.servers, self._server_handle = [server], server
        self._server_address = f"hf://{self.replica_rank}"

    async def _device_variables(self) -> dict[str, str]:
        """Show the server the accelerator of its worker without Ray counting it twice."""
        platform = get_platform()
        if platform.device_name == "cpu":
            return {}
        ids = await self.workers[0].__ray_call__.remote(
            lambda _: ray.get_runtime_context().get_accelerator_ids()[get_resource_name()]
        )
        unset_by_ray = dict.fromkeys(platform.ray_noset_envvars(), "1")
        return {**unset_by_ray, platform.visible_devices_envvar(): ",".join(ids)}

    def _server_config(self) -> ServerConfig:
        model: Any = self.model_config
        override = model.get("override_config") or {}
        settings = self.config.engine_kwargs.get("hf") or {}
        on_cpu = get_platform().device_name == "cpu"
        return ServerConfig(
            model_path=str(model.get("local_path") or model["path"]),
            trust_remote_code=bool(model.get("trust_remote_code", False)),
            dtype=str(self.config.dtype),
            attention=str(override.get("attn_implementation") or "sdpa"),
            prompt_length=int(self.config.prompt_length),
            response_length=int(self.config.response_length),
            max_batch=min(MAX_BATCH, int(self.config.max_num_seqs)),
            rollouts_per_step=int(settings.get("rollouts_per_step") or 0),
            threads=1 if on_cpu else None,
            seed=int(self.config.seed) + self.replica_rank,
        )


class HFRollout(BaseRollout):
    """Sends the weights of a training worker to the server of its rank."""

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
        state = {
            name.replace(".base_layer.", "."): weight.detach().cpu() for name, weight in weights
        }
        if peft_config is not None and base_sync_done:
            await self._handle().load_adapter.remote(state, peft_config, global_steps)
        else:
            await self._handle().load_weights.remote(state, global_steps)

    def _handle(self) -> Any:
        if self.server is None:  # the server starts after this worker
            self.server = ray.get_actor(server_name(self.replica_rank))
        return self.server
