"""Export a checkpoint as a model folder, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.measure.targets import Target
from engine.run.checkpoints.model_folder import DTYPES, require_space, weights_bytes
from engine.run.host.programs import own_module


@dataclass(frozen=True)
class Exported:
    """``largest_difference``: of a logit of the folder from that of the checkpoint, on
    ``prompts`` prompts."""

    folder: Path
    dtype: str
    parameters: int
    prompts: int
    largest_difference: float


def export(target: Target, folder: Path, dtype: str | None, env: Mapping[str, str]) -> Exported:
    """Write ``folder``, whole or not at all. ``dtype`` None keeps that of the weights.

    UsageError for a folder that exists, an unknown data type, too little disk, and a folder that
    does not give the logits of the checkpoint.
    """
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists; name a folder that does not")
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype} must be one of {', '.join(DTYPES)}")
    require_space(folder, weights_bytes(Path(target.source)))
    job = {"form": target.form, "source": target.source, "out": str(folder), "dtype": dtype}
    done = subprocess.run(
        own_module("engine.train.export_model", str(os.getpid())),
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env={**env, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    if done.returncode:
        raise UsageError(f"{folder} was not written: {failure_of(done.returncode, done.stderr)}")
    raw: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Exported(**{**raw, "folder": Path(raw["folder"])})


def failure_of(code: int, errors: str) -> str:
    """Why a process failed, from its exit code and the last line of its errors."""
    if code == -signal.SIGKILL:
        return "its process was killed by SIGKILL; the kernel does so if the memory is full"
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    lines = errors.strip().splitlines() or [f"exit code {code}"]
    return lines[-1].removeprefix("error: ")
