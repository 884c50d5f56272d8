"""Everything we rely on that verl 0.9.1 (or torch and Ray, under verl) does not offer publicly.

One place, so that moving the verl pin means reading this file and ``deviations.yaml``, which says
of each deviation what is used, why, and how to notice that it moved; ``verify()`` looks whether
all of them fit the installed verl. docs/verl.md prints the same list.
"""

from __future__ import annotations

import inspect
import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from engine.base.addresses import is_loopback
from engine.train import queue_key, setup_worker, skipped_updates, wandb_guard

if TYPE_CHECKING:
    from engine.train.tracked_rewards import TrackedRewards

VERL_VERSION = "0.9.1"
RAY_VERSION = "2.60.0"
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
NODE_START_S = 600.0
"""The longest start of a private Ray. One that takes longer does not start."""
_LATE_S = 30.0
"""Ray itself waits so long for a node."""


def _patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace ``owner.name`` by what ``make`` returns for it. A second call changes nothing."""
    original = getattr(owner, name)
    made_by: tuple[str, ...] = getattr(original, "_made_by", ())
    if make.__qualname__ not in made_by:
        replacement: Any = wraps(original)(make(original))
        replacement._made_by = (*made_by, make.__qualname__)
        setattr(owner, name, replacement)


def apply_on_cpu() -> None:
    """Patch torch for one process of a CPU run. Calling it twice changes nothing."""
    import torch.distributed as dist
    import torch.distributed.fsdp as fsdp

    def without_second_cpu(original: Any) -> Any:
        def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
            original("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

        return init_process_group

    _patch(dist, "init_process_group", without_second_cpu)
    policy = fsdp.CPUOffloadPolicy
    if policy.__name__ == "UnpinnedOffloadPolicy":
        return

    # A subclass, because torch checks for the policy with isinstance().
    class UnpinnedOffloadPolicy(policy):  # type: ignore[misc, valid-type]
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp.CPUOffloadPolicy = UnpinnedOffloadPolicy  # type: ignore[misc]


def apply_to_private_ray() -> None:
    """Let the private Ray of this process pick every port, start workers with less CPU time, and
    have more time to start itself.

    Calling it twice changes nothing.
    """
    from ray._private import services
    from ray._private.parameter import RayParams

    ours = {"dashboard_agent_listen_port": 0, "setup_worker_path": setup_worker.__file__}

    def of_private_ray(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **{**ours, **kwargs})

        return __init__

    _patch(services, "get_node", _patient)
    _patch(RayParams, "__init__", of_private_ray)


def _patient(original: Any) -> Any:
    """Wait for the node of a private Ray for up to ``NODE_START_S``, and say so.

    ``ray.init()`` asks for it for 30 s and then fails, which a busy machine can exceed. Each of its
    questions now takes as long as it needs.
    """

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

    return get_node


def search_working_folder_last() -> None:
    """Keep Ray from putting the working folder before the libraries of every worker.

    The workers search it last (``engine.train.plugin``). Calling it twice changes nothing.
    """
    from ray.job_config import JobConfig

    def without_folder(original: Any) -> Any:
        def _serialize(self: Any) -> Any:
            here = os.path.abspath(os.path.curdir)  # noqa: PTH100 - as Ray writes it
            self._py_driver_sys_path = [path for path in self._py_driver_sys_path if path != here]
            return original(self)

        return _serialize

    _patch(JobConfig, "_serialize", without_folder)


def apply_to_sockets() -> None:
    """Let the sockets of this process speak to the run alone. Calling it twice changes nothing."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    _patch(TCPStore, "__init__", _on_loopback)
    if queue_key.FILE_VARIABLE in os.environ:
        _patch_queue_sockets(os.environ[queue_key.FILE_VARIABLE])


def _on_loopback(original: Any) -> Any:
    """A store that is announced on a loopback address listens there only."""

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

    return __init__


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

    def keyed(original: Any) -> Any:
        def create_zmq_socket(
            ctx: Any, socket_type: Any, ip: str, identity: bytes | None = None
        ) -> Any:
            made = original(ctx, socket_type, ip, identity)
            queue_key.require(made, listens=socket_type == zmq.ROUTER, key_file=key_file)
            return made

        return create_zmq_socket

    _patch(zmq_utils, "create_zmq_socket", keyed)
    for module in (base, simple_storage, controller):
        module.create_zmq_socket = zmq_utils.create_zmq_socket


def run_rewards_apart() -> None:
    """Let verl call reward functions of configs in processes that can be ended.

    Calling it twice changes nothing.
    """
    from verl.trainer.ppo import reward

    def apart(_original: Any) -> Any:
        def get_custom_reward_fn(config: Any) -> Any:
            from engine.train.reward_entry import reward_processes

            processes = reward_processes(config)
            return None if processes is None else processes.score

        return get_custom_reward_fn

    _patch(reward, "get_custom_reward_fn", apart)


def keep_training_without_wandb() -> None:
    """Let verl's trackers survive failures of W&B, and name its run by ``$WANDB_NAME``.

    Calling it twice changes nothing.
    """
    from verl.utils.tracking import Tracking

    def guarded(original: Any) -> Any:
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

        return __init__

    _patch(Tracking, "__init__", guarded)


def count_skipped_updates() -> None:
    """Count the updates that verl skips, and end the run when a step reaches the limit.

    The step is logged before. Calling it twice changes nothing.
    """
    from verl.utils import tensordict_utils
    from verl.utils.tracking import Tracking
    from verl.workers.engine_workers import TrainingWorker

    def counted(original: Any) -> Any:
        def train_batch(self: Any, data: Any) -> Any:
            output = original(self, data)
            if output is not None:
                if not hasattr(self, "_skip_counter"):
                    self._skip_counter = skipped_updates.SkipCounter()
                values = tensordict_utils.get(output, "metrics")
                # Only fp16 has a scaler of the loss.
                scaler = getattr(self.engine, "scaler", None)
                scale = 1.0 if scaler is None else float(scaler.get_scale())
                values.update(self._skip_counter.count(values["grad_norm"], scale))
            return output

        return train_batch

    def limited(original: Any) -> Any:
        def log(self: Any, data: Any, step: int, backend: Any = None) -> None:
            original(self, data, step, backend)
            skipped_updates.require_trained(data, step)

        return log

    _patch(TrainingWorker, "train_batch", counted)
    _patch(Tracking, "log", limited)


def log_rewards_with_steps() -> None:
    """Let verl's trackers log the rewards and judge calls of a step beside verl's numbers of it.

    Calling it twice changes nothing.
    """
    from verl.utils.tracking import Tracking

    @cache
    def rewards() -> TrackedRewards | None:
        # One process of a run logs; the others need not load the readers of its files.
        from engine.train.tracked_rewards import TrackedRewards

        return TrackedRewards.of_attempt()

    def with_rewards(original: Any) -> Any:
        def log(self: Any, data: dict[str, Any], step: int, backend: Any = None) -> None:
            tracked = rewards()
            original(self, data if tracked is None else tracked.add(data, step), step, backend)

        return log

    _patch(Tracking, "log", with_rewards)


def register_adapter() -> None:
    """Make ``rollout.name=hf`` known on the trainer's side."""
    from verl.workers.rollout import base

    base._ROLLOUT_REGISTRY[("hf", "async")] = "engine.train.hf_rollout.HFRollout"


@dataclass(frozen=True)
class Deviation:
    """One deviation from the public interfaces: an entry of ``deviations.yaml``.

    ``contains``: texts by the place whose source has to have them. ``takes``: the first arguments
    of a function by its place. A place is ``module`` or ``module:name``.
    """

    name: str
    kind: Literal["public hook", "environment", "private name", "patch"]
    change: str
    reason: str
    contains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    takes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def complaint(self) -> str | None:
        """What no longer fits the installed verl, torch or Ray; None if all does."""
        for place, texts in self.contains.items():
            if missing := [text for text in texts if text not in _source(resolve_name(place))]:
                return f"{place} has no {missing[0]!r} any more"
        for place, wanted in self.takes.items():
            signature = inspect.signature(inspect.unwrap(resolve_name(place)))
            names = [name for name in signature.parameters if name not in ("self", "cls")]
            if names[: len(wanted)] != list(wanted):
                return f"{place} takes {names}, expected {wanted}"
        check = _CHECKS.get(self.name)
        return check() if check else None


def deviations() -> list[Deviation]:
    """All deviations, in the order of the documentation."""
    from engine.base.yaml_files import read_yaml

    return [Deviation(**entry) for entry in read_yaml(Path(__file__).with_name("deviations.yaml"))]


def verify() -> list[str]:
    """Return one line for each deviation that no longer fits the installed verl."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    checks = ((deviation.name, deviation.complaint()) for deviation in deviations())
    return [f"{name}: {complaint}" for name, complaint in checks if complaint is not None]


def _source(thing: Any) -> str:
    """Its source; the documentation of what is compiled."""
    try:
        return inspect.getsource(thing)
    except TypeError:
        return thing.__doc__ or ""


def _other_version(package: str, expected: str) -> str | None:
    installed = version(package)
    return None if installed == expected else f"{package} {installed} is installed, not {expected}"


def _platform_registry_moved() -> str | None:
    from verl.plugin.platform import PlatformRegistry

    from engine.train.cpu_platform import NAME, PlatformCPU

    missing = sorted(getattr(PlatformCPU, "__abstractmethods__", ()))
    if missing:
        return f"verl's platforms gained methods that PlatformCPU lacks: {', '.join(missing)}"
    return None if PlatformRegistry.get(NAME) is PlatformCPU else "PlatformCPU is not registered"


def _adapter_registry_moved() -> str | None:
    from verl.workers.rollout import base

    registry = getattr(base, "_ROLLOUT_REGISTRY", None)
    if isinstance(registry, dict) and ("vllm", "async") in registry:
        return None
    return "verl.workers.rollout.base._ROLLOUT_REGISTRY is no longer {(name, mode): class}"


def _worker_setup_moved() -> str | None:
    from ray._private.runtime_env.context import RuntimeEnvContext

    ours = {*setup_worker.KNOWN, "command_prefix", "override_worker_entrypoint", "java_jars"}
    known = set(vars(RuntimeEnvContext()))
    return None if known == ours else f"Ray sets up its workers with {sorted(known ^ ours)}"


def _queue_sockets_moved() -> str | None:
    """Sockets that TransferQueue makes without the function that is patched."""
    import transfer_queue
    import zmq

    if not zmq.has("curve"):
        return "libzmq was built without CURVE"
    folder = Path(transfer_queue.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
    made = [
        f"{path.name}:{number}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"(ctx|context)\.socket\(", line) and path.name != "zmq_utils.py"
    ]
    importers = sorted(
        str(path.relative_to(folder))
        for path, text in texts.items()
        if re.search(r"^ +create_zmq_socket,|import create_zmq_socket", text, re.M)
    )
    patched = ["controller.py", "storage/managers/base.py", "storage/simple_storage.py"]
    if made or importers != patched:
        return f"TransferQueue makes sockets elsewhere: {', '.join(made or importers)}"
    return None


def _temperature_moved() -> str | None:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    lines = inspect.getsource(PPOTrainer).splitlines()
    read = [line.strip() for line in lines if "temperature" in line]
    other = [line for line in read if "self.config.actor_rollout_ref.rollout." not in line]
    return f"verl's trainer gets a temperature in another way: {other[0]}" if other else None


_CHECKS: Mapping[str, Callable[[], str | None]] = {
    "verl version": lambda: _other_version("verl", VERL_VERSION),
    "CPU platform": _platform_registry_moved,
    "hf rollout adapter": _adapter_registry_moved,
    "forked Ray workers": lambda: _other_version("ray", RAY_VERSION),
    "Ray's worker setup": _worker_setup_moved,
    "TransferQueue sockets": _queue_sockets_moved,
    "temperature schedule": _temperature_moved,
}
"""What the texts of ``deviations.yaml`` cannot express, by the name of the deviation. Each imports
what it checks, so that importing this module stays cheap."""
