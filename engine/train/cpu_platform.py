"""The platform verl lacks: plain CPU, through verl's public ``PlatformRegistry``.

Chosen by ``VERL_PLATFORM=cpu`` only; it never wins verl's automatic detection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _zero(*_args: Any, **_kwargs: Any) -> int:
    return 0


def _device_module() -> ModuleType:
    """``torch.cpu`` plus the memory and RNG functions verl calls on ``torch.cuda``."""
    module = ModuleType("cpu_device")
    vars(module).update({name: value for name, value in vars(torch.cpu).items() if name[0] != "_"})
    for name in (
        "memory_allocated",
        "memory_reserved",
        "max_memory_allocated",
        "max_memory_reserved",
    ):
        setattr(module, name, _zero)
    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_accumulated_memory_stats",
        "reset_peak_memory_stats",
        "set_device",
        "set_per_process_memory_fraction",
        "synchronize",
    ):
        setattr(module, name, _nothing)
    vars(module).update(
        current_device=lambda: torch.device("cpu"),
        # The key of verl's table of theoretical FLOPS.
        get_device_name=lambda *_: "CPU",
        get_rng_state=torch.get_rng_state,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        mem_get_info=lambda *_: (0, 0),
        set_rng_state=torch.set_rng_state,
    )
    return module


@PlatformRegistry.register(platform=NAME)
class PlatformCPU(PlatformBase):
    """One CPU "device" per process, gloo between processes."""

    _module = _device_module()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return self._module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> torch.device:
        # verl does ``tensor.to(get_device_id())``, where an int would mean ``cuda:<int>``.
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        # verl's resource pools count "GPU" or "NPU" only, so Ray gets logical GPUs.
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
