"""The machine at one moment, and the part of it that a run holds: a line of ``system.jsonl``."""

from __future__ import annotations

from msgspec import Struct

from engine.base.typed import Integer, Line, Moment, Number


class GpuSample(Struct, frozen=True):
    """One NVIDIA device, in percent, bytes, watts and Celsius; None: it does not tell."""

    index: Integer = 0
    """In PCI bus order, as ``nvidia-smi`` counts."""
    name: Line = ""
    util: Number | None = None
    mem_used: Integer | None = None
    mem_total: Integer | None = None
    run_mem: Integer | None = None
    """Of the run's processes; None in a container that hides other namespaces' pids."""
    power_w: Number | None = None
    temp_c: Number | None = None


class RunSample(Struct, frozen=True):
    """The run's processes; CPU in percent of one core, memory in bytes."""

    cpu_percent: Number | None = None
    rss: Integer | None = None
    pids: Integer = 0
    pss: Integer | None = None
    """Memory with shared pages counted once."""

    @property
    def memory(self) -> int | None:
        """Bytes, with shared pages counted once if that was measured."""
        return self.pss or self.rss


class SystemSample(Struct, frozen=True):
    """The machine; CPU in percent of all cores, memory and disk in bytes."""

    t: Moment | None = None
    """Unix seconds."""
    cpu_percent: Number | None = None
    cpu_count: Integer | None = None
    mem_used: Integer | None = None
    mem_total: Integer | None = None
    disk_free: Integer | None = None
    run: RunSample = RunSample()
    gpus: tuple[GpuSample, ...] = ()
