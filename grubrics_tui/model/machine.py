"""The machine now: disk, GPUs, load. For a thread; it opens the GPU driver and measures files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.run.checkpoints.disposal import bytes_of
from engine.run.checkpoints.ownership import checkpoint_folder, read_stamp
from engine.run.host.system import Gpu
from engine.run.run import Run, run_ids


@dataclass(frozen=True)
class GpuNow:
    """``utilization`` in percent, None if the device does not tell; memory in bytes."""

    index: int
    utilization: float | None
    memory_used: int
    memory_total: int


@dataclass(frozen=True)
class Machine:
    """Bytes; ``load`` is the load average of the last minute on ``cores`` cores."""

    disk_free: int
    checkpoints: int
    """Files in the checkpoint folders of the listed runs."""
    load: float
    cores: int
    memory_used: int
    memory_total: int
    gpus: tuple[GpuNow, ...] = ()


def read_machine(root: Path, gpus: list[Gpu]) -> Machine:
    """Measure the machine, and the checkpoints of all runs below ``root``."""
    memory = psutil.virtual_memory()
    return Machine(
        disk_free=shutil.disk_usage(root).free,
        checkpoints=sum(map(bytes_of, _checkpoint_folders(root))),
        load=os.getloadavg()[0],
        cores=psutil.cpu_count() or 1,
        memory_used=memory.total - memory.available,
        memory_total=memory.total,
        gpus=tuple(map(_read_gpu, gpus)),
    )


def _read_gpu(gpu: Gpu) -> GpuNow:
    sample = gpu.sample(set())
    return GpuNow(gpu.index, sample.util, sample.mem_used or 0, sample.mem_total or 0)


def _checkpoint_folders(root: Path) -> Iterator[Path]:
    """The folders that runs save to, each once, and none that is inside of another.

    Only those with the stamp of a run: a damaged manifest may name any folder.
    """
    runs = (Run(root / name) for name in run_ids(root))
    named = (checkpoint_folder(run.read_manifest()) for run in runs)
    folders = {os.path.normpath(path) for path in named if path and read_stamp(path) is not None}
    for folder in sorted(folders):
        if not any(str(above) in folders for above in Path(folder).parents):
            yield Path(folder)
