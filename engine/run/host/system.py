"""Samples of the machine and of the part of it that a run holds. Linux only (/proc)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import psutil

from engine.run.system_sample import GpuSample, RunSample, SystemSample

T = TypeVar("T")

_PSS_PERIOD_S = 10.0


class SystemSampler:
    """Measures the machine at each call.

    CPU shares are measured between two calls, so the first says 0.
    """

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._known: dict[int, psutil.Process] = {}
        self._memory = ProportionalMemory()
        self._gpus = open_gpus()
        psutil.cpu_percent()

    def sample(self, pids: Iterable[int]) -> SystemSample:
        """The machine now, and the share of the processes ``pids``."""
        members = self._processes(pids)
        memory = psutil.virtual_memory()
        return SystemSample(
            t=time.time(),
            cpu_percent=psutil.cpu_percent(),
            cpu_count=psutil.cpu_count(),
            mem_used=memory.total - memory.available,
            mem_total=memory.total,
            disk_free=psutil.disk_usage(str(self._disk)).free,
            run=_usage(members.values(), self._memory.bytes(members)),
            gpus=tuple(gpu.sample(set(members)) for gpu in self._gpus),
        )

    def _processes(self, pids: Iterable[int]) -> dict[int, psutil.Process]:
        """Process objects, stored between calls: their CPU share needs the previous reading."""
        current = {}
        for pid in pids:
            try:
                current[pid] = self._known.get(pid) or psutil.Process(pid)
            except psutil.Error:
                continue
        self._known = current
        return current


class ProportionalMemory:
    """Memory of many processes with shared pages counted once (PSS), without pages of files.

    A run's workers share Ray's object store and, on a CPU, the pages of the process they were
    forked from, so the sum of their resident sizes is far too large. Pages of files, such as
    libraries, are not counted: the machine's ``mem_used`` does not count them either, because the
    kernel can drop them.

    The kernel walks every page for this, so it is measured rarely, and more rarely if measuring is
    slow.
    """

    def __init__(self) -> None:
        self._due = 0.0
        self._sizes: dict[int, int] = {}

    def bytes(self, pids: Iterable[int]) -> int:
        """The last measured sum, of the processes that have not ended since."""
        pids = list(pids)
        started = time.monotonic()
        if started >= self._due:
            self._sizes = {pid: _pss(pid) for pid in pids}
            took = time.monotonic() - started
            self._due = started + max(_PSS_PERIOD_S, 100 * took)
        return sum(self._sizes.get(pid, 0) for pid in pids)


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    sizes = {
        name: int(size.split()[0]) * 1024
        for name, _, size in (line.partition(":") for line in text.splitlines())
        if name.startswith("Pss")
    }
    total = sizes.get("Pss", 0)  # Linux before 5.9 does not say what part is of files.
    return max(0, total - sizes.get("Pss_File", 0))


class Gpu:
    """One NVIDIA device, through NVML."""

    def __init__(self, nvml: ModuleType, index: int) -> None:
        self._nvml = nvml
        self._index = index
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def sample(self, pids: set[int]) -> GpuSample:
        nvml, handle = self._nvml, self._handle
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return GpuSample(
            index=self._index,
            name=str(nvml.nvmlDeviceGetName(handle)),
            util=self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            mem_used=memory.used,
            mem_total=memory.total,
            run_mem=self._ask(lambda: self._memory_of(pids)),
            power_w=self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            temp_c=self._ask(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
        )

    @property
    def index(self) -> int:
        """In PCI bus order, as ``nvidia-smi`` counts."""
        return self._index

    def uuid(self) -> str:
        return str(self._ask(lambda: self._nvml.nvmlDeviceGetUUID(self._handle)) or "")

    def memory_used(self) -> int | None:
        """Used bytes, of all processes; None if the device does not answer."""
        used = self._ask(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        return None if used is None else int(used)

    def held(self) -> dict[int, int]:
        """Bytes by pid, of the processes that this namespace can see."""
        users = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return {user.pid: user.usedGpuMemory or 0 for user in users or ()}

    def _memory_of(self, pids: set[int]) -> int | None:
        """Bytes of the run's processes; None if a container hides other namespaces' pids."""
        users = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        visible = [user for user in users if psutil.pid_exists(user.pid)]
        if users and not visible:
            return None
        return sum(user.usedGpuMemory or 0 for user in visible if user.pid in pids)

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def gpu_memory() -> dict[int, int]:
    """Bytes of GPU memory by pid, over all devices."""
    total: dict[int, int] = {}
    for gpu in open_gpus():
        for pid, size in gpu.held().items():
            total[pid] = total.get(pid, 0) + size
    return total


def open_gpus() -> list[Gpu]:
    """The NVIDIA devices of this machine; none without a driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        # No library, no driver, or a broken one: all mean that there is no GPU to read.
        return []
    return [Gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]


def _usage(processes: Iterable[psutil.Process], pss: int) -> RunSample:
    cpu, rss, count = 0.0, 0, 0
    for process in processes:
        try:
            with process.oneshot():
                cpu += process.cpu_percent()
                rss += process.memory_info().rss
        except psutil.Error:
            continue
        count += 1
    return RunSample(round(cpu, 1), rss, count, pss)
