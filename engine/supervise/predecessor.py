"""What the doctor says of the run that a queued one follows."""

from __future__ import annotations

import subprocess

from engine.base import jsonl
from engine.host.python import own_module
from engine.runs.rundir import RunDir

_PATIENCE_S = 120.0


def complaint(run: RunDir) -> str | None:
    """``run 'a' finished, but is unhealthy: ...``; None where the doctor has nothing against it.

    The doctor needs numpy, and the supervisor does without: it is asked in a process of its own.
    """
    command = own_module("engine.doctor.health", str(run.path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"the doctor could not examine run '{run.id}': {jsonl.line(why)}"
    said = jsonl.line(done.stdout.strip())
    return f"run '{run.id}' finished, but is {said}; this run follows it" if said else None
