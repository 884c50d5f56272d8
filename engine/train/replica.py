"""Starts the ``hf`` rollout server: verl's ``RolloutReplica`` for one HFServer actor."""

from __future__ import annotations

from typing import Any

import ray
from verl.plugin.platform import get_platform
from verl.utils.device import get_resource_name
from verl.workers.rollout.replica import RolloutReplica

from engine.train.hf_server import HFServer, ServerConfig

MAX_BATCH = 64


def server_name(replica_rank: int, suffix: str = "") -> str:
    """The Ray name under which the trainer-side adapter finds its server."""
    return f"hf_server_{replica_rank}{suffix}"


class HFReplica(RolloutReplica):
    """One server actor beside the worker it shares the device with; no tensor parallelism."""

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
        """Let the server see the accelerator of its worker without Ray counting it twice."""
        platform = get_platform()
        if platform.device_name == "cpu":
            return {}
        ids = await self.workers[0].__ray_call__.remote(
            lambda _: ray.get_runtime_context().get_accelerator_ids()[get_resource_name()]
        )
        keep = dict.fromkeys(platform.ray_noset_envvars(), "1")
        return {**keep, platform.visible_devices_envvar(): ",".join(ids)}

    def _server_config(self) -> ServerConfig:
        model: Any = self.model_config
        override = model.get("override_config") or {}
        own = self.config.engine_kwargs.get("hf") or {}
        on_cpu = get_platform().device_name == "cpu"
        return ServerConfig(
            model_path=str(model.get("local_path") or model["path"]),
            trust_remote_code=bool(model.get("trust_remote_code", False)),
            dtype=str(self.config.dtype),
            attention=str(override.get("attn_implementation") or "sdpa"),
            prompt_length=int(self.config.prompt_length),
            response_length=int(self.config.response_length),
            max_batch=min(MAX_BATCH, int(self.config.max_num_seqs)),
            rollouts_per_step=int(own.get("rollouts_per_step") or 0),
            threads=1 if on_cpu else None,
            seed=int(self.config.seed) + self.replica_rank,
        )
