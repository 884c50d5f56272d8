"""The trainer process of an attempt, and its descendants."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine.base import files
from engine.runs import processes
from engine.runs.processes import Identity
from engine.runs.rundir import (
    ATTEMPT_DIR_VARIABLE,
    MARK_VARIABLE,
    MARKS,
    RUN_ID_VARIABLE,
    Attempt,
    RunDir,
)
from engine.runs.wandb_variables import wandb_variables
from engine.supervise.final_state import Exit


class Trainer:
    """Starts the trainer, finds its processes, and collects every child that ends."""

    def __init__(
        self,
        run: RunDir,
        attempt: Attempt,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._run = run
        self.exit: Exit | None = None
        inherited = {name: text for name, text in os.environ.items() if name not in MARKS}
        with os.fdopen(files.open_to_append(attempt.console), "ab") as console:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={
                    **inherited,
                    "PYTHONUNBUFFERED": "1",
                    **environment,
                    **_marks(run, attempt),
                },
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # Reaped by waitpid(-1) below, together with the orphans this process adopts.
        self._pid = process.pid
        process.returncode = 0
        self.identity = processes.identify(process.pid)

    def reap(self) -> None:
        """Collect ended children; ``exit`` is set once the trainer is among them."""
        for pid, status in processes.reap_children():
            if pid == self._pid:
                self.exit = Exit.from_status(status)

    def members(self) -> list[Identity]:
        """Every live process of the run except the supervisor."""
        return processes.members(self._run, roots=[os.getpid()])

    def signal(self, number: signal.Signals) -> list[int]:
        """Signal the trainer, which ends its workers (SIGINT), or all processes (other signals).

        Returns the pids that were signalled.
        """
        trainer = [self.identity] if self.identity is not None else []
        targets = trainer if number == signal.SIGINT else self.members()
        return [target.pid for target in targets if processes.send(target, number)]


def recording(run: RunDir, attempt: Attempt) -> Mapping[str, str]:
    """The variables by which our trainer logs to the run's files, and its attempts to one run of
    W&B."""
    return {
        "VERL_FILE_LOGGER_PATH": str(attempt.metrics.resolve()),
        **wandb_variables(run, os.environ),
    }


def _marks(run: RunDir, attempt: Attempt) -> Mapping[str, str]:
    """The variables that identify the run's processes; a config cannot replace them."""
    mark = run.read_mark()
    return {
        RUN_ID_VARIABLE: run.id,
        ATTEMPT_DIR_VARIABLE: str(attempt.path.resolve()),
        **({MARK_VARIABLE: mark} if mark else {}),
    }


# In the order they appear; each names what the run waits for once its line was printed.
_START_MARKERS = (
    ("Ray job grubrics-", "its Ray job"),
    ("ray init kwargs", "Ray"),
    ("Started a local Ray instance", "trainer process"),
    ("Connecting to existing Ray cluster", "trainer process"),
    ("dataset len:", "data"),
    ("Total training steps:", "workers"),
    ("create worker group", "model"),
    ("actor and ref model engine initialized", "reward workers"),
    ("reward loop manager initialized", "rollout server"),
    ("checkpoint engine manager initialized", "first weights"),
    ("all initialize finished, ready to fit", "first step"),
    ("Initial validation metrics:", "first step"),
    ("Training Progress", "first step"),
)


def waiting_for(lines: Iterable[bytes], now: str) -> str:
    """Return what a starting run waits for after ``lines``, given what it waited for before."""
    awaited = [name for _, name in _START_MARKERS]
    latest = awaited.index(now) if now in awaited else -1
    for line in lines:
        text = line.decode("utf-8", errors="replace")
        for index, (marker, _) in enumerate(_START_MARKERS):
            if index > latest and marker in text:
                latest = index
    return awaited[latest] if latest >= 0 else now
