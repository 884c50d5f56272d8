"""Samples of the machine and of the part of it that a run holds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil


class SystemSampler:
    """One record of ``system.jsonl`` per call; bytes, percent of one core for CPU, watts, Celsius.

    CPU shares are measured between two calls, so the first says 0.
    """

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._known: dict[int, psutil.Process] = {}
        self._gpus = open_gpus()
        psutil.cpu_percent()

    def sample(self, pids: Iterable[int]) -> dict[str, Any]:
        """The machine now, and the share of the processes ``pids``."""
        members = self._processes(pids)
        memory = psutil.virtual_memory()
        return {
            "v": 1,
            "t": time.time(),
            "cpu_percent": psutil.cpu_percent(),
            "cpu_count": psutil.cpu_count(),
            "mem_used": memory.total - memory.available,
            "mem_total": memory.total,
            "disk_free": psutil.disk_usage(str(self._disk)).free,
            "run": _usage(members.values()),
            "gpus": [gpu.sample(set(members)) for gpu in self._gpus],
        }

    def _processes(self, pids: Iterable[int]) -> dict[int, psutil.Process]:
        """Process objects kept between calls: their CPU share needs the earlier reading."""
        current = {}
        for pid in pids:
            try:
                current[pid] = self._known.get(pid) or psutil.Process(pid)
            except psutil.Error:
                continue
        self._known = current
        return current


class Gpu:
    """One NVIDIA device, through NVML."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self._index = index
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def sample(self, pids: set[int]) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handle
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "index": self._index,
            "name": str(nvml.nvmlDeviceGetName(handle)),
            "util": self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "mem_used": memory.used,
            "mem_total": memory.total,
            "run_mem": self._ask(lambda: self._held_by(pids)),
            "power_w": self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "temp_c": self._ask(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
        }

    def _held_by(self, pids: set[int]) -> int | None:
        """Bytes of the run's processes; None where a container hides other namespaces' pids."""
        users = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        known = [user for user in users if psutil.pid_exists(user.pid)]
        if users and not known:
            return None
        return sum(user.usedGpuMemory or 0 for user in known if user.pid in pids)

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def open_gpus() -> list[Gpu]:
    """The NVIDIA devices of this machine; none when there is no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        # No library, no driver, or a broken one: all mean that there is no GPU to read.
        return []
    return [Gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]


def _usage(processes: Iterable[psutil.Process]) -> dict[str, float]:
    cpu = rss = count = 0.0
    for process in processes:
        try:
            with process.oneshot():
                cpu += process.cpu_percent()
                rss += process.memory_info().rss
        except psutil.Error:
            continue
        count += 1
    return {"cpu_percent": round(cpu, 1), "rss": int(rss), "pids": int(count)}
