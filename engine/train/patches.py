"""Everything we rely on that verl 0.9.1 (or torch and Ray, under verl) does not offer publicly.

One place, so that moving the verl pin means reading this file. Each entry says what is used, why,
and how to notice that it moved; ``verify()`` runs those checks. docs/verl.md prints the same list.
"""

from __future__ import annotations

import inspect
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.base.addresses import is_loopback
from engine.train import queue_key, setup_worker, skipped_updates, wandb_guard

if TYPE_CHECKING:
    from engine.train.tracked_rewards import TrackedRewards

VERL_VERSION = "0.9.1"
RAY_VERSION = "2.60.0"
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
NODE_START_S = 600.0
_LATE_S = 30.0
"""Ray itself waits so long for a node."""
"""The longest start of a private Ray. One that takes longer does not start."""

Kind = Literal["public hook", "environment", "private name", "patch"]


@dataclass(frozen=True)
class Deviation:
    """One deviation from verl's public interface; ``check`` returns what is wrong, or None."""

    name: str
    kind: Kind
    change: str
    reason: str
    check: Callable[[], str | None]


def apply_on_cpu() -> None:
    """Patch torch for one process of a CPU run. Calling it twice changes nothing."""
    _patch_backend_string()
    _patch_pinned_offload()


def apply_to_private_ray() -> None:
    """Let the private Ray of this process pick every port, start workers with less CPU time, and
    have more time to start itself.

    Calling it twice changes nothing.
    """
    from ray._private.parameter import RayParams

    _patch_node_start()
    original = RayParams.__init__
    if getattr(original, "_of_private_ray", False):
        return
    ours = {"dashboard_agent_listen_port": 0, "setup_worker_path": setup_worker.__file__}

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **{**ours, **kwargs})

    __init__._of_private_ray = True  # type: ignore[attr-defined]
    RayParams.__init__ = __init__


def search_working_folder_last() -> None:
    """Keep Ray from putting the working folder before the libraries of every worker.

    The workers search it last (``engine.train.plugin``). Calling it twice changes nothing.
    """
    from ray.job_config import JobConfig

    original = JobConfig._serialize
    if getattr(original, "_searches_last", False):
        return

    def _serialize(self: Any) -> Any:
        here = os.path.abspath(os.path.curdir)  # noqa: PTH100 - as Ray writes it
        self._py_driver_sys_path = [path for path in self._py_driver_sys_path if path != here]
        return original(self)

    _serialize._searches_last = True  # type: ignore[attr-defined]
    JobConfig._serialize = _serialize


def _patch_node_start() -> None:
    """Wait for the node of a private Ray for up to ``NODE_START_S``, and say so.

    ``ray.init()`` asks for it for 30 s and then fails, which a busy machine can exceed. Each of its
    questions now takes as long as it needs.
    """
    from ray._private import services

    original = services.get_node
    if getattr(original, "_is_patient", False):
        return

    @wraps(original)
    def get_node(*args: Any, **kwargs: Any) -> Any:
        began, is_said = time.monotonic(), False
        while True:
            try:
                return original(*args, **kwargs)
            except RuntimeError:
                waited = time.monotonic() - began
                if waited >= NODE_START_S:
                    raise
                if waited >= _LATE_S and not is_said:
                    is_said = True
                    limit = f"waiting for up to {NODE_START_S:g} s"
                    print(f"Ray's node has not started after {waited:.0f} s; {limit}", flush=True)
                time.sleep(0.2)

    get_node._is_patient = True  # type: ignore[attr-defined]
    services.get_node = get_node


def apply_to_sockets() -> None:
    """Let the sockets of this process speak to the run alone. Calling it twice changes nothing."""
    _patch_torch_store()
    if queue_key.FILE_VARIABLE in os.environ:
        _patch_queue_sockets(os.environ[queue_key.FILE_VARIABLE])


def run_rewards_apart() -> None:
    """Let verl call reward functions of recipes in processes that can be ended.

    Calling it twice changes nothing.
    """
    from verl.trainer.ppo import reward

    if getattr(reward.get_custom_reward_fn, "_apart", False):
        return

    def get_custom_reward_fn(config: Any) -> Any:
        from engine.train.reward_entry import reward_processes

        processes = reward_processes(config)
        return None if processes is None else processes.score

    get_custom_reward_fn._apart = True  # type: ignore[attr-defined]
    reward.get_custom_reward_fn = get_custom_reward_fn


def keep_training_without_wandb() -> None:
    """Let verl's trackers survive failures of W&B, and name its run by ``$WANDB_NAME``.

    Calling it twice changes nothing.
    """
    from verl.utils.tracking import Tracking

    original = Tracking.__init__
    if getattr(original, "_guarded", False):
        return

    @wraps(original)
    def __init__(  # noqa: N807
        self: Any,
        project_name: str,
        experiment_name: str,
        default_backend: str | list[str] = "console",
        config: Any = None,
    ) -> None:
        def start(name: str) -> dict[str, Any]:
            original(self, project_name, name, ["wandb"], config)
            return dict(self.logger)

        asks_wandb, others = wandb_guard.split_backends(default_backend)
        wandb = wandb_guard.start_wandb(start, experiment_name) if asks_wandb else {}
        original(self, project_name, experiment_name, others, config)
        self.logger = {**wandb, **self.logger}

    __init__._guarded = True  # type: ignore[attr-defined]
    Tracking.__init__ = __init__


def count_skipped_updates() -> None:
    """Count the updates that verl skips, and end the run when a step reaches the limit.

    The step is logged before. Calling it twice changes nothing.
    """
    from verl.utils import tensordict_utils
    from verl.utils.tracking import Tracking
    from verl.workers.engine_workers import TrainingWorker

    train, log = TrainingWorker.train_batch, Tracking.log
    if getattr(train, "_counted", False):
        return

    @wraps(train)
    def train_batch(self: Any, data: Any) -> Any:
        output = train(self, data)
        if output is not None:
            values = tensordict_utils.get(output, "metrics")
            values.update(_skip_counter(self).count(values["grad_norm"], _loss_scale(self.engine)))
        return output

    @wraps(log)
    def log_step(self: Any, data: Any, step: int, backend: Any = None) -> None:
        log(self, data, step, backend)
        skipped_updates.require_trained(data, step)

    train_batch._counted = True  # type: ignore[attr-defined]
    TrainingWorker.train_batch = train_batch
    Tracking.log = log_step


def _skip_counter(worker: Any) -> skipped_updates.SkipCounter:
    if not hasattr(worker, "_skip_counter"):
        worker._skip_counter = skipped_updates.SkipCounter()
    counter: skipped_updates.SkipCounter = worker._skip_counter
    return counter


def _loss_scale(engine: Any) -> float:
    """The scale of the loss in fp16; 1 for other types."""
    scaler = getattr(engine, "scaler", None)
    return 1.0 if scaler is None else float(scaler.get_scale())


def log_rewards_with_steps() -> None:
    """Let verl's trackers log the rewards and judge calls of a step beside verl's numbers of it.

    Calling it twice changes nothing.
    """
    from verl.utils.tracking import Tracking

    original = Tracking.log
    if getattr(original, "_with_rewards", False):
        return

    @cache
    def rewards() -> TrackedRewards | None:
        # One process of a run logs; the others need not load the readers of its files.
        from engine.train.tracked_rewards import TrackedRewards

        return TrackedRewards.of_attempt()

    @wraps(original)
    def log(self: Any, data: dict[str, Any], step: int, backend: Any = None) -> None:
        tracked = rewards()
        original(self, data if tracked is None else tracked.add(data, step), step, backend)

    log._with_rewards = True  # type: ignore[attr-defined]
    Tracking.log = log


def register_adapter() -> None:
    """Make ``rollout.name=hf`` known on the trainer's side."""
    from verl.workers.rollout import base

    base._ROLLOUT_REGISTRY[("hf", "async")] = "engine.train.hf_rollout.HFRollout"


def _patch_backend_string() -> None:
    import torch.distributed as dist

    original = dist.init_process_group
    if getattr(original, "_cpu_backend", False):
        return

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        return original("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    init_process_group._cpu_backend = True  # type: ignore[attr-defined]
    dist.init_process_group = init_process_group


def _patch_pinned_offload() -> None:
    import torch.distributed.fsdp as fsdp

    original = fsdp.CPUOffloadPolicy
    if original.__name__ == "UnpinnedOffloadPolicy":
        return

    # A subclass, because torch checks for the policy with isinstance().
    class UnpinnedOffloadPolicy(original):  # type: ignore[misc, valid-type]
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp.CPUOffloadPolicy = UnpinnedOffloadPolicy  # type: ignore[misc]


def _patch_torch_store() -> None:
    """A store that is announced on a loopback address listens there only."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    original = TCPStore.__init__
    if getattr(original, "_loopback", False):
        return

    @wraps(original)
    def __init__(  # noqa: N807
        self: Any,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        has_socket = len(args) > 3 or kwargs.get("master_listen_fd") is not None
        if is_master and not has_socket and is_loopback(host_name):
            listening = _listen(host_name, port)
            if listening is not None:  # otherwise this process has a store there already
                port = listening.getsockname()[1]
                kwargs["master_listen_fd"] = listening.detach()
        original(self, host_name, port, world_size, is_master, *args, **kwargs)

    __init__._loopback = True  # type: ignore[attr-defined]
    TCPStore.__init__ = __init__  # type: ignore[method-assign]


def _listen(host: str, port: int) -> socket.socket | None:
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(socket.SOMAXCONN)
    except OSError:
        listening.close()
        return None
    return listening


def _patch_queue_sockets(key_file: str) -> None:
    import zmq
    from transfer_queue import controller
    from transfer_queue.storage import simple_storage
    from transfer_queue.storage.managers import base
    from transfer_queue.utils import zmq_utils

    original = zmq_utils.create_zmq_socket
    if getattr(original, "_keyed", False):
        return

    def create_zmq_socket(
        ctx: Any, socket_type: Any, ip: str, identity: bytes | None = None
    ) -> Any:
        made = original(ctx, socket_type, ip, identity)
        queue_key.require(made, listens=socket_type == zmq.ROUTER, key_file=key_file)
        return made

    create_zmq_socket._keyed = True  # type: ignore[attr-defined]
    for module in (zmq_utils, base, simple_storage, controller):
        module.create_zmq_socket = create_zmq_socket


# checks: each imports what it checks, so that importing this module stays cheap


def _version_moved() -> str | None:
    installed = version("verl")
    if installed == VERL_VERSION:
        return None
    return f"verl {installed} is installed, not {VERL_VERSION}"


def _platform_registry_moved() -> str | None:
    from verl.plugin.platform import PlatformRegistry

    from engine.train.cpu_platform import NAME, PlatformCPU

    missing = sorted(getattr(PlatformCPU, "__abstractmethods__", ()))
    if missing:
        return f"verl's platforms gained methods that PlatformCPU lacks: {', '.join(missing)}"
    return None if PlatformRegistry.get(NAME) is PlatformCPU else "PlatformCPU is not registered"


def _engine_override_moved() -> str | None:
    from verl.workers.engine.base import EngineRegistry

    source = inspect.getsource(EngineRegistry)
    return None if "VERL_ENGINE_DEVICE" in source else "verl no longer reads VERL_ENGINE_DEVICE"


def _adapter_registry_moved() -> str | None:
    from verl.workers.rollout import base

    registry = getattr(base, "_ROLLOUT_REGISTRY", None)
    if not isinstance(registry, dict) or ("vllm", "async") not in registry:
        return "verl.workers.rollout.base._ROLLOUT_REGISTRY is no longer {(name, mode): class}"
    return _signature_moved(base.BaseRollout.__init__, ["config", "model_config", "device_mesh"])


def _replica_registry_moved() -> str | None:
    from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

    wanted = ["replica_rank", "config", "model_config", "gpus_per_node"]
    return _signature_moved(RolloutReplicaRegistry.register, ["name", "loader"]) or (
        _signature_moved(RolloutReplica.__init__, wanted)
    )


def _backend_string_moved() -> str | None:
    from verl.utils import distributed

    source = inspect.getsource(distributed.initialize_global_process_group_ray)
    is_unchanged = 'f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"' in source
    return (
        None if is_unchanged else "verl builds its torch.distributed backend string in another way"
    )


def _offload_policy_moved() -> str | None:
    from torch.distributed.fsdp import CPUOffloadPolicy

    return _signature_moved(CPUOffloadPolicy.__init__, ["pin_memory"])


def _ray_moved() -> str | None:
    installed = version("ray")
    return None if installed == RAY_VERSION else f"ray {installed} is installed, not {RAY_VERSION}"


def _node_start_moved() -> str | None:
    from ray._private import node, services

    asks = "ray._private.services.get_node(" in inspect.getsource(node.Node.__init__)
    if not asks:
        return "ray.init() waits for its node in another way"
    return _signature_moved(inspect.unwrap(services.get_node), ["gcs_address", "node_id"])


def _working_folder_moved() -> str | None:
    from ray._private import worker
    from ray.job_config import JobConfig

    adds = "job_config._py_driver_sys_path.extend" in inspect.getsource(worker.connect)
    reads = "self._py_driver_sys_path" in inspect.getsource(JobConfig)
    return None if adds and reads else "Ray passes the driver's path on in another way"


def _agent_port_moved() -> str | None:
    from ray._private.parameter import RayParams

    is_unchanged = "dashboard_agent_listen_port" in inspect.getsource(RayParams)
    return None if is_unchanged else "Ray names the port of its dashboard agent in another way"


def _worker_setup_moved() -> str | None:
    from ray._private.parameter import RayParams
    from ray._private.runtime_env.context import RuntimeEnvContext

    if "setup_worker_path" not in inspect.getsource(RayParams):
        return "Ray names the script that sets up its workers in another way"
    ours = {*setup_worker.KNOWN, "command_prefix", "override_worker_entrypoint", "java_jars"}
    known = set(vars(RuntimeEnvContext()))
    return None if known == ours else f"Ray sets up its workers with {sorted(known ^ ours)}"


def _loopback_switch_moved() -> str | None:
    from ray._private import ray_constants, services

    is_named = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR == LOOPBACK_VARIABLE
    is_used = "ENABLE_RAY_CLUSTER" in inspect.getsource(services.get_node_ip_address)
    return None if is_named and is_used else f"Ray no longer reads {LOOPBACK_VARIABLE}"


def _torch_store_moved() -> str | None:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    is_unchanged = "master_listen_fd" in (TCPStore.__init__.__doc__ or "")
    return None if is_unchanged else "torch's TCPStore takes no listening socket"


def _queue_sockets_moved() -> str | None:
    import zmq
    from transfer_queue.utils import zmq_utils

    if not zmq.has("curve"):
        return "libzmq was built without CURVE"
    wanted = ["ctx", "socket_type", "ip", "identity"]
    return _signature_moved(zmq_utils.create_zmq_socket, wanted) or _other_queue_sockets()


def _other_queue_sockets() -> str | None:
    """Sockets that TransferQueue makes without the function that is patched."""
    import transfer_queue

    made = [
        f"{path.name}:{number}"
        for path in sorted(Path(transfer_queue.__file__).parent.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"(ctx|context)\.socket\(", line) and path.name != "zmq_utils.py"
    ]
    importers = sorted(
        str(path.relative_to(Path(transfer_queue.__file__).parent))
        for path in Path(transfer_queue.__file__).parent.rglob("*.py")
        if re.search(r"^ +create_zmq_socket,|import create_zmq_socket", path.read_text(), re.M)
    )
    patched = ["controller.py", "storage/managers/base.py", "storage/simple_storage.py"]
    if made or importers != patched:
        return f"TransferQueue makes sockets elsewhere: {', '.join(made or importers)}"
    return None


def _sampler_moved() -> str | None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    if "poll_interval" not in inspect.signature(ReplayBuffer.__init__).parameters:
        return "verl's ReplayBuffer has no poll_interval"
    if "no materializable trajectories" not in inspect.getsource(ReplayBuffer.sample):
        return "verl's ReplayBuffer words its error for a step without rewards in another way"
    sample = inspect.unwrap(ReplayBuffer.sample)
    return _signature_moved(sample, ["global_steps", "partition_id", "batch_size"])


def _eviction_moved() -> str | None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    source = inspect.getsource(inspect.unwrap(ReplayBuffer.sample))
    called = ("_terminal_eviction_reasons", "_evict_terminal_groups", "_wait_for_next_poll")
    missing = [name for name in called if f"self.{name}(" not in source]
    if missing:
        return f"verl's ReplayBuffer.sample no longer calls {', '.join(missing)}"
    return _signature_moved(ReplayBuffer._dapo_filtered_keys, ["partition_id"])


def _reward_manager_moved() -> str | None:
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
    from verl.trainer.ppo.v1 import agent_loop_tq

    if 'kwargs["uid"], kwargs["session_id"]' not in inspect.getsource(agent_loop_tq):
        return "verl's agent loop no longer hands uid and session_id to the reward"
    return _signature_moved(RewardManagerBase.__init__, ["config", "tokenizer", "compute_score"])


def _agent_loop_moved() -> str | None:
    from verl.trainer.ppo.v1 import agent_loop_tq

    source = inspect.getsource(agent_loop_tq)
    if "self._compute_score(outputs, kwargs=kwargs)" not in source:
        return "verl's agent loop no longer hands the columns of a row to the reward"
    if 'batch["validate"] if "validate" in batch' not in source:
        return "verl's agent loop no longer reads from the batch whether it validates"
    return None


def _temperature_moved() -> str | None:
    from verl.experimental.agent_loop.agent_loop import AgentLoopManager
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
    from verl.trainer import main_ppo
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    runner = inspect.getsource(main_ppo)
    sources = map(inspect.getsource, (PPOTrainer.__init__, AgentLoopManager.__init__))
    shared = all("self.config = config\n" in source for source in sources)
    if not shared or "trainer_cls(config=config)" not in runner or "=self.config," not in runner:
        return "verl's trainer and its agent loop manager no longer have the same config object"
    lines = inspect.getsource(PPOTrainer).splitlines()
    read = [line.strip() for line in lines if "temperature" in line]
    if other := [line for line in read if "self.config.actor_rollout_ref.rollout." not in line]:
        return f"verl's trainer gets a temperature in another way: {other[0]}"
    if "sampling_params=sampling_params," not in inspect.getsource(SingleTurnAgentLoop):
        return "verl's agent loop of a single turn no longer samples with its sampling_params"
    return None


def _phased_engine_moved() -> str | None:
    from torch.optim.lr_scheduler import LambdaLR
    from verl.workers.config import HFModelConfig
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    if "VERL_ENGINE_VENDOR" not in inspect.getsource(EngineRegistry):
        return "verl no longer reads VERL_ENGINE_VENDOR"
    if "import_external_libs(self.external_lib)" not in inspect.getsource(HFModelConfig):
        return "verl's model config no longer imports external_lib"
    if "self.lr_scheduler.step()" not in inspect.getsource(FSDPEngine.lr_scheduler_step):
        return "verl's FSDP engine steps its learning rate in another way"
    return None if "lr_lambdas" in inspect.getsource(LambdaLR) else "LambdaLR has no lr_lambdas"


def _tool_loop_moved() -> str | None:
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

    source = inspect.getsource(ToolAgentLoop)
    wanted = (
        "self._call_tool(tool_call, agent_data.tools_kwargs, agent_data)",
        "agent_data._active_tools = ",
        "agent_data.tool_calls[: self.max_parallel_calls]",
        "self.tool_parser.extract_tool_calls(",
    )
    if missing := [text for text in wanted if text not in source]:
        return f"verl's tool agent loop has no {missing[0]!r} any more"
    return None


def _reward_function_moved() -> str | None:
    from verl.trainer.ppo import reward

    run_rewards_apart()
    if "get_custom_reward_fn(config)" not in inspect.getsource(reward.load_reward_manager):
        return "verl loads reward functions of recipes in another way"
    return None


def _tracking_moved() -> str | None:
    from verl.utils.tracking import Tracking

    source = inspect.getsource(Tracking)
    wanted = ("name=experiment_name, entity=entity", 'loggers["wandb"].finish(exit_code=exit_code)')
    if missing := [text for text in wanted if text not in source]:
        return f"verl's Tracking has no {missing[0]!r} any more"
    arguments = ["project_name", "experiment_name", "default_backend", "config"]
    return _signature_moved(inspect.unwrap(Tracking.__init__), arguments)


def _skipping_moved() -> str | None:
    from verl.utils.tracking import Tracking
    from verl.workers.engine.base import BaseEngine
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
    from verl.workers.engine_workers import TrainingWorker

    if 'outputs["metrics"]["grad_norm"] = grad_norm' not in inspect.getsource(BaseEngine):
        return "verl's engines no longer return the norm of the gradient"
    if "if not torch.isfinite(grad_norm):" not in inspect.getsource(FSDPEngine.optimizer_step):
        return "verl's FSDP engine no longer skips updates whose gradient norm is not finite"
    if "self.train_batch(mini_batch_td)" not in inspect.getsource(TrainingWorker):
        return "verl's TrainingWorker no longer trains its mini-batches with train_batch"
    train, log = inspect.unwrap(TrainingWorker.train_batch), inspect.unwrap(Tracking.log)
    return _signature_moved(train, ["data"]) or _signature_moved(log, ["data", "step", "backend"])


def _sft_loop_moved() -> str | None:
    from verl.trainer import sft_trainer

    source = inspect.getsource(sft_trainer)
    wanted = (
        "self.training_client.train_batch(data=data)",
        "self.train_dataloader,\n                    initial=",
        "global_token_num=batch_seqlens_ntd",
        "initialize_global_process_group()\n    trainer = SFTTrainer(config=config)\n"
        "    trainer.fit()\n    destroy_global_process_group()",
    )
    if missing := [text for text in wanted if text not in source]:
        return f"verl's SFT trainer has no {missing[0]!r} any more"
    return None


def _tracker_moved() -> str | None:
    from verl.utils.tracking import Tracking

    return _signature_moved(inspect.unwrap(Tracking.log), ["data", "step", "backend"])


def _signature_moved(function: Callable[..., Any], wanted: list[str]) -> str | None:
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    if names[: len(wanted)] == wanted:
        return None
    return f"{function.__qualname__} takes {names}, expected {wanted}"


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "verl version",
        "private name",
        f"everything below was checked against verl {VERL_VERSION}",
        "verl has no stable interface for platforms and rollouts",
        _version_moved,
    ),
    Deviation(
        "CPU platform",
        "public hook",
        "PlatformRegistry.register + VERL_PLATFORM=cpu (engine/train/cpu_platform.py)",
        "verl ships CUDA, ROCm and NPU platforms only",
        _platform_registry_moved,
    ),
    Deviation(
        "engine lookup",
        "environment",
        "VERL_ENGINE_DEVICE=cuda",
        "the FSDP engine is registered for cuda and npu, not for cpu",
        _engine_override_moved,
    ),
    Deviation(
        "hf rollout server",
        "public hook",
        "RolloutReplicaRegistry.register('hf', ...) (engine/train/hf_rollout.py)",
        "verl has vLLM, SGLang and TensorRT-LLM servers; none starts on a plain CPU",
        _replica_registry_moved,
    ),
    Deviation(
        "hf rollout adapter",
        "private name",
        "verl.workers.rollout.base._ROLLOUT_REGISTRY[('hf', 'async')]",
        "the trainer's side of a rollout is looked up in a dict without a register function",
        _adapter_registry_moved,
    ),
    Deviation(
        "replay buffer poll",
        "public hook",
        "trainer.v1.sampler.custom_sampler (engine/train/sampler.py)",
        "the stock buffer sleeps 2.0 s per look: no step could be shorter",
        _sampler_moved,
    ),
    Deviation(
        "replay buffer evictions",
        "private name",
        "overridden in engine/train/sampler.py: ReplayBuffer._terminal_eviction_reasons, "
        "_dapo_filtered_keys, _evict_terminal_groups, _wait_for_next_poll",
        "verl filters no group that lost a rollout, and replaces evicted groups forever",
        _eviction_moved,
    ),
    Deviation(
        "forked Ray workers",
        "public hook",
        "runtime_env.py_executable (engine/train/zygote.py); RAY_JOB_ID and RAY_RAYLET_PID set "
        "before ray is imported, because its C++ side reads them only then",
        "importing verl again costs each of eight actors some seconds of CPU",
        _ray_moved,
    ),
    Deviation(
        "Ray's start",
        "patch",
        "ray._private.services.get_node(...) waits in a private instance",
        "ray.init() gives its node 30 s, which a machine with other work on it can exceed",
        _node_start_moved,
    ),
    Deviation(
        "Ray's path of imports",
        "patch",
        "ray.job_config.JobConfig._serialize leaves the working folder out",
        "every worker would search it first: a random.py there would replace Python's own",
        _working_folder_moved,
    ),
    Deviation(
        "Ray's agent port",
        "patch",
        "ray._private.parameter.RayParams(dashboard_agent_listen_port=0) in a private instance",
        "ray.init() always takes 52365: a cluster started later could take no jobs",
        _agent_port_moved,
    ),
    Deviation(
        "Ray's worker setup",
        "patch",
        "ray._private.parameter.RayParams(setup_worker_path=engine/train/setup_worker.py) in a "
        "private instance",
        "Ray's own script imports Ray to set some variables: 0.4 s of CPU for each of ten workers",
        _worker_setup_moved,
    ),
    Deviation(
        "Ray on loopback",
        "environment",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 in a private instance (engine/train/ray_session.py)",
        "ray.init() turns 127.0.0.1 into the host's address, and its services listen on all",
        _loopback_switch_moved,
    ),
    Deviation(
        "TransferQueue sockets",
        "patch",
        "transfer_queue.utils.zmq_utils.create_zmq_socket: CURVE with the run's key "
        "(engine/train/queue_key.py)",
        "TransferQueue unpickles what anybody sends to its ports",
        _queue_sockets_moved,
    ),
    Deviation(
        "torch store",
        "patch",
        "torch.distributed.TCPStore(master_listen_fd=...) where its host is a loopback address",
        "torch's store listens on every address of the host",
        _torch_store_moved,
    ),
    Deviation(
        "reward manager",
        "public hook",
        "reward.reward_manager source=importlib (engine/train/reward_entry.py), reading uid, "
        "session_id and global_steps of the sample",
        "a plain custom_reward_function does not get group, step or split",
        _reward_manager_moved,
    ),
    Deviation(
        "agent loop manager",
        "public hook",
        "rollout.agent.agent_loop_manager_class (engine/train/agent_loop.py), which adds a column "
        "to the batches of AgentLoopManagerTQ.generate_sequences",
        "verl does not tell its reward manager whether a rollout validates",
        _agent_loop_moved,
    ),
    Deviation(
        "engine of a curriculum",
        "public hook",
        "model.external_lib and VERL_ENGINE_VENDOR=grubrics: EngineRegistry.register "
        "(engine/train/phased_engine.py), which wraps the lr_lambdas of the engine's scheduler",
        "verl has one learning-rate schedule, and no hook before and after an update",
        _phased_engine_moved,
    ),
    Deviation(
        "temperature schedule",
        "public hook",
        "the agent loop manager sets rollout.temperature in the config object that it shares with "
        "the trainer, and rollout.agent.agent_loop_config_path replaces the loop "
        "single_turn_agent (engine/train/agent_loop.py)",
        "verl samples and trains all steps at one temperature",
        _temperature_moved,
    ),
    Deviation(
        "tool agent loop",
        "private name",
        "ToolAgentLoop._call_tool overridden, and AgentData._active_tools read, in "
        "engine/train/tool_loop.py, which verl loads by rollout.agent.agent_loop_config_path",
        "verl drops calls that it cannot read, waits for tools without a limit, and does not say "
        "what became of a call",
        _tool_loop_moved,
    ),
    Deviation(
        "reward function",
        "patch",
        "verl.trainer.ppo.reward.get_custom_reward_fn: calls go to processes of their own "
        "(engine/own_reward)",
        "verl imports the file into its reward worker, where a call that hangs cannot be ended",
        _reward_function_moved,
    ),
    Deviation(
        "W&B",
        "patch",
        "verl.utils.tracking.Tracking.__init__: starts W&B apart from the other loggers, under "
        "WANDB_NAME (engine/train/wandb_guard.py)",
        "an exception of W&B, at its start or in any step, ends the training",
        _tracking_moved,
    ),
    Deviation(
        "times of SFT",
        "public hook",
        "SFTTrainer.train_dataloader and training_client.train_batch are replaced before fit() "
        "(engine/train/sft_timing.py)",
        "verl's SFT trainer logs no times",
        _sft_loop_moved,
    ),
    Deviation(
        "skipped updates",
        "patch",
        "verl.workers.engine_workers.TrainingWorker.train_batch counts them, and "
        "verl.utils.tracking.Tracking.log ends the run (engine/train/skipped_updates.py)",
        "verl skips updates whose gradient norm is not finite, to the last step if need be",
        _skipping_moved,
    ),
    Deviation(
        "rewards of a step",
        "patch",
        "verl.utils.tracking.Tracking.log: adds the rewards and the judge's times "
        "(engine/train/tracked_rewards.py)",
        "verl's numbers have no spread of rewards inside a group, and nothing about the judge",
        _tracker_moved,
    ),
    Deviation(
        "gloo backend string",
        "patch",
        "torch.distributed.init_process_group: 'cpu:gloo,cpu:gloo' -> 'gloo'",
        "verl always builds 'cpu:gloo,<device>:<backend>'; torch refuses cpu twice",
        _backend_string_moved,
    ),
    Deviation(
        "unpinned offload",
        "patch",
        "torch.distributed.fsdp.CPUOffloadPolicy(pin_memory=False)",
        "verl pins the reference policy's memory; without an accelerator torch cannot",
        _offload_policy_moved,
    ),
)


def verify() -> list[str]:
    """Return one line for each deviation that no longer fits the installed verl."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    checks = ((deviation.name, deviation.check()) for deviation in DEVIATIONS)
    return [f"{name}: {complaint}" for name, complaint in checks if complaint is not None]
