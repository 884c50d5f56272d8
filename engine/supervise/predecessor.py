"""Examine the run that a queued run follows, in a separate process that nothing waits for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from engine.base import jsonl
from engine.host.programs import own_module
from engine.runs.rundir import RunDir

PATIENCE_S = 120.0

Command = Callable[[RunDir], Sequence[str]]


def doctor_command(run: RunDir) -> Sequence[str]:
    """The command that prints ``unhealthy: ...`` for a run that finished with alerts.

    The doctor needs numpy, which the supervisor never imports.
    """
    return own_module("engine.doctor.health", str(run.path))


@dataclass(frozen=True)
class Examination:
    """The process that examines a run."""

    run: RunDir
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    deadline: float

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self.deadline

    def complaint(self) -> str | None:
        """``run 'a' finished, but is unhealthy: ...``; None for a healthy run."""
        if self.process.poll() is None:
            return f"the doctor did not examine run '{self.run.id}' within {PATIENCE_S:.0f} s"
        if self.process.returncode != 0:
            lines = _text(self.errors).splitlines()
            cause = lines[-1] if lines else f"exit code {self.process.returncode}"
            return f"the doctor could not examine run '{self.run.id}': {jsonl.line(cause)}"
        health = jsonl.line(_text(self.output))
        if not health:
            return None
        return f"run '{self.run.id}' finished, but is {health}; this run follows it"


@contextmanager
def examine(run: RunDir, command: Command = doctor_command) -> Iterator[Examination]:
    """Start an examination; leaving the context ends it. OSError if it cannot be started."""
    # Files, not pipes: the process would block on a full pipe that nothing reads.
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = subprocess.Popen(
            command(run), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            yield Examination(run, process, output, errors, time.monotonic() + PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()
