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


def _always(answer: Any) -> Any:
    """A function or method that gives the same answer, whatever it is asked."""
    return lambda *_args, **_kwargs: answer


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
        setattr(module, name, _always(0))
    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_accumulated_memory_stats",
        "reset_peak_memory_stats",
        "set_device",
        "set_per_process_memory_fraction",
        "synchronize",
    ):
        setattr(module, name, _always(None))
    vars(module).update(
        current_device=_always(torch.device("cpu")),
        # The key of verl's table of theoretical FLOPS.
        get_device_name=_always("CPU"),
        get_rng_state=torch.get_rng_state,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        mem_get_info=_always((0, 0)),
        set_rng_state=torch.set_rng_state,
    )
    return module


@PlatformRegistry.register(platform=NAME)
class PlatformCPU(PlatformBase):
    """One CPU "device" per process, gloo between processes."""

    device_name = vendor_name = property(_always("cpu"))
    device_module = property(_always(_device_module()))
    is_available = _always(True)
    is_platform_available = is_ipc_supported = _always(False)
    # verl does ``tensor.to(get_device_id())``, where an int would mean ``cuda:<int>``.
    current_device = _always(torch.device("cpu"))
    device_count = _always(1)
    set_device = synchronize = set_allocator_settings = empty_cache = _always(None)
    profiler_start = profiler_stop = cudart = _always(None)
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    # verl's resource pools count "GPU" or "NPU" only, so Ray gets logical GPUs.
    ray_resource_name = _always("GPU")
    ray_noset_envvars = _always(())

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield
