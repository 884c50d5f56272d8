"""Which GPUs of this machine are free, and who has the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.base.quantities import format_size
from engine.run.host.system import Gpu
from engine.run.processes import run_of

ALL = "all"
"""The GPUs of a run for which CUDA_VISIBLE_DEVICES is not set."""

_LITTLE = 1 << 30
_HIDDEN = 2 << 30  # the driver's own share is up to about 1 GiB and belongs to no process


@dataclass(frozen=True)
class GpuUser:
    """A process that holds ``held`` bytes of a device. ``run`` is the run it was started for."""

    pid: int
    held: int
    run: str | None = None


@dataclass(frozen=True)
class Device:
    """A device at one moment. ``used`` bytes in all; None when it does not answer."""

    index: int
    uuid: str
    used: int | None
    users: tuple[GpuUser, ...] = ()


@dataclass(frozen=True)
class Shortage:
    """Why there are not enough free devices, in one phrase."""

    message: str


def read_devices(gpus: Iterable[Gpu]) -> list[Device]:
    """The devices now."""
    return [
        Device(
            gpu.index,
            gpu.uuid(),
            gpu.memory_used(),
            tuple(GpuUser(pid, held, run_of(pid)) for pid, held in gpu.held().items()),
        )
        for gpu in gpus
    ]


def choose(
    count: int, devices: Sequence[Device], claims: Mapping[str, str], allowed: str | None = None
) -> tuple[int, ...] | Shortage:
    """The first ``count`` devices that are free, as indices in PCI bus order.

    ``claims`` are the devices of the other active runs by run id, ``allowed`` the caller's own
    CUDA_VISIBLE_DEVICES. A device is free if no active run has it and its processes use hardly any
    memory.
    """
    candidates = visible(ALL if allowed is None else allowed, devices)
    problems = {device.index: _problem(device, devices, claims) for device in candidates}
    free = [index for index, problem in problems.items() if problem is None]
    if len(free) >= count:
        return tuple(free[:count])
    busy = ", ".join(problem for problem in problems.values() if problem is not None)
    wanted = f"{count} free GPU{'s' if count != 1 else ''}"
    return Shortage(f"{wanted}: {busy}" if busy else f"{wanted}: {len(free)} can be seen")


def visible(variable: str, devices: Sequence[Device]) -> list[Device]:
    """The devices that CUDA_VISIBLE_DEVICES names, by index or start of their UUID.

    As in CUDA, everything after the first invalid name is ignored.
    """
    if variable == ALL:
        return list(devices)
    chosen: list[Device] = []
    for name in variable.split(","):
        device = _find_device(name.strip(), devices)
        if device is None or device in chosen:
            break
        chosen.append(device)
    return chosen


def _find_device(name: str, devices: Sequence[Device]) -> Device | None:
    if name.isdecimal():
        return next((device for device in devices if device.index == int(name)), None)
    matching = [device for device in devices if name and device.uuid.startswith(name)]
    return matching[0] if len(matching) == 1 else None


def _problem(device: Device, devices: Sequence[Device], claims: Mapping[str, str]) -> str | None:
    """Why a device is not free, or None."""
    for run, variable in claims.items():
        if device in _claimed(variable, devices):
            return f"{device.index} is used by run {run}"
    if device.used is None:
        return f"{device.index} does not answer"
    visible_bytes = sum(user.held for user in device.users)
    if visible_bytes > _LITTLE:
        return f"{device.index} holds {_holder(device.users)}"
    if device.used - visible_bytes > _HIDDEN:
        return (
            f"{device.index} holds {format_size(device.used)} of processes that cannot be seen here"
        )
    return None


def _claimed(variable: str, devices: Sequence[Device]) -> list[Device]:
    """The devices of another run: all if a name, e.g. of a MIG slice, is unknown."""
    names = [name for name in variable.split(",") if name.strip() not in ("", "-1")]
    named = visible(variable, devices)
    return named if len(named) >= len(names) else list(devices)


def _holder(users: Sequence[GpuUser]) -> str:
    largest = max(users, key=lambda user: user.held)
    if largest.run is None:
        return f"{format_size(largest.held)} of pid {largest.pid}, which belongs to no run"
    return f"{format_size(largest.held)} of pid {largest.pid}, a process of run {largest.run}"
