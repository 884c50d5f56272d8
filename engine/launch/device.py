"""The device of ``launch --device``, in PyTorch's words, as an override and variables of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.errors import UsageError, shorten

_DEVICE = re.compile(r"(?P<kind>cpu|cuda)(?::(?P<gpus>\d+(?:,\d+)*))?")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
KEY = "grubrics.device"


@dataclass(frozen=True)
class Device:
    """Where a run trains. ``variables`` restrict it to GPUs, numbered as in ``nvidia-smi``."""

    override: str
    variables: Mapping[str, str] = field(default_factory=dict)


def parse_device(text: str, env: Mapping[str, str]) -> Device:
    """Return the device that ``cpu``, ``cuda``, ``cuda:1`` or ``cuda:0,1`` names.

    UsageError for another text, and for a GPU that ``env`` hides.
    """
    match = _DEVICE.fullmatch(text)
    if match is None or (match["kind"] == "cpu" and match["gpus"]):
        raise UsageError(
            f"--device '{shorten(text)}' is no device. Write cpu, cuda, cuda:1 or cuda:0,1"
        )
    override = f"{KEY}={match['kind']}"
    if match["gpus"] is None:
        return Device(override)
    gpus = [str(int(gpu)) for gpu in match["gpus"].split(",")]
    if len({*gpus}) < len(gpus):
        raise UsageError(f"--device {text} names a GPU twice")
    _require_visible(text, gpus, env)
    # By default CUDA numbers GPUs by speed, nvidia-smi by bus.
    return Device(override, {_VISIBLE: ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


def _require_visible(text: str, gpus: list[str], env: Mapping[str, str]) -> None:
    """UsageError for a GPU that the shell, or the job that it is in, does not have."""
    allowed = env.get(_VISIBLE)
    names = [name.strip() for name in (allowed or "").split(",")]
    # Other names, such as those of MIG slices, cannot be compared with numbers.
    if allowed is None or not all(name.isdecimal() or name in ("", "-1") for name in names):
        return
    hidden = [gpu for gpu in gpus if gpu not in names]
    if hidden:
        raise UsageError(
            f"--device {text}: {_VISIBLE}={allowed} hides GPU {', '.join(hidden)}; choose one of "
            f"its GPUs, or unset {_VISIBLE}"
        )
