"""The trainer process of an attempt, and its descendants."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from engine.base import files
from engine.run import processes
from engine.run.identity import Identity
from engine.run.manifest import WandbNames
from engine.run.marks import mark_of, read_mark
from engine.run.notes import read_notes
from engine.run.run import (
    ATTEMPT_DIR_VARIABLE,
    MARK_VARIABLE,
    MARKS,
    RUN_ID_VARIABLE,
    Attempt,
    Run,
)
from engine.supervise.final_state import Exit


class Trainer:
    """Starts the trainer, finds its processes, and collects every child that ends."""

    def __init__(
        self,
        run: Run,
        held: Run,
        number: int,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
    ) -> None:
        """``held`` is the run by its open folder. OSError if the trainer cannot be started: a
        second call takes over what the first one did start, as after an error of the pipe to it.
        """
        self._held = held
        self.exit: Exit | None = None
        inherited = {name: text for name, text in os.environ.items() if name not in MARKS}
        mark = mark_of(held)
        marks = {  # A config cannot replace them.
            RUN_ID_VARIABLE: run.id,
            ATTEMPT_DIR_VARIABLE: str(run.attempt(number).path.resolve()),
            **({MARK_VARIABLE: mark} if mark else {}),
        }
        variables = {**inherited, "PYTHONUNBUFFERED": "1", **environment, **marks}
        started = self._started()
        self._pid = started or _start(argv, cwd, variables, held.attempt(number).console)
        self.identity = processes.identify(self._pid)

    def _started(self) -> int | None:
        children = [pid for pid, parent in processes.every_parent() if parent == os.getpid()]
        marks = ((pid, read_mark(pid)) for pid in children)
        return next((pid for pid, mark in marks if mark and mark.is_of(self._held)), None)

    def reap(self) -> None:
        """Collect ended children; ``exit`` is set once the trainer is among them."""
        for pid, status in processes.reap_children():
            if pid == self._pid:
                self.exit = Exit.from_status(status)

    def members(self) -> list[Identity]:
        """Every live process of the run except the supervisor."""
        return processes.members(self._held, roots=[os.getpid()])

    def signal(self, number: signal.Signals) -> list[int]:
        """Signal the trainer, which ends its workers (SIGINT), or all processes (other signals).

        Returns the pids that were signalled. Where the processes cannot be listed, the trainer and
        its process group are: it has not been reaped, so its pid is its own.
        """
        if number != signal.SIGINT:
            with suppress(OSError):
                return [target.pid for target in self.members() if processes.send(target, number)]
        with suppress(ProcessLookupError):
            os.killpg(self._pid, number) if number != signal.SIGINT else os.kill(self._pid, number)
        return [self._pid]


def _start(argv: Sequence[str], cwd: Path, variables: Mapping[str, str], output: Path) -> int:
    with os.fdopen(files.open_to_append(output), "ab") as console:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Reaped by ``Trainer.reap``, together with the orphans that this process adopts.
    process.returncode = 0
    return process.pid


def recording(run: Run, attempt: Attempt) -> Mapping[str, str]:
    """The variables by which our trainer logs to the run's files, and its attempts to one run of
    W&B."""
    return {
        "VERL_FILE_LOGGER_PATH": str(attempt.metrics.resolve()),
        **wandb_variables(run, os.environ),
    }


# In the order they appear; each names what the run waits for once its line was printed.
_START_MARKERS = (
    ("", "the trainer to load"),  # Whatever it prints, its process is there.
    ("Ray job grubrics-", "its Ray job"),
    ("ray init kwargs", "Ray"),
    ("Started a local Ray instance", "Ray's task that trains"),
    ("Connecting to existing Ray cluster", "Ray's task that trains"),
    ("(TaskRunner pid=", "the task that trains to load"),
    ("dataset len:", "data"),
    ("Total training steps:", "workers"),
    ("create worker group", "model"),
    ("actor and ref model engine initialized", "reward workers"),
    ("reward loop manager initialized", "rollout server"),
    ("checkpoint engine manager initialized", "first weights"),
    ("all initialize finished, ready to fit", "first step"),
    ("\nTotal steps:", "first step"),  # SFT; the workers of GRPO print it behind their names.
    ("Initial validation metrics:", "first step"),
    ("Training Progress", "first step"),
)


_TOTAL = re.compile(rb"Total training steps: (\d{1,15})")


def said_total(lines: Iterable[bytes]) -> int | None:
    """The steps that verl counts in the data it has read, without rows that it drops; None where
    the lines do not say it."""
    said = [match for line in lines if (match := _TOTAL.search(line))]
    return int(said[-1][1]) if said else None


def waiting_for(lines: Iterable[bytes], now: str) -> str:
    """Return what a starting run waits for after ``lines``, given what it waited for before."""
    awaited = [name for _, name in _START_MARKERS]
    latest = awaited.index(now) if now in awaited else -1
    for line in lines:
        text = "\n" + line.decode("utf-8", errors="replace")
        for index, (marker, _) in enumerate(_START_MARKERS):
            if index > latest and marker in text:
                latest = index
    return awaited[latest] if latest >= 0 else now


FINISH_S = 300
"""How long a trainer that has ended waits for the upload. W&B itself waits without a limit; what
was not uploaded stays on disk and can be synced."""


def wandb_variables(run: Run, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the next attempt of ``run``; those set in ``env`` stay.

    W&B writes into the folder ``wandb`` of the run, so that two runs never share one, and all
    attempts continue one run of W&B.
    """
    given = run.read_manifest().wandb or WandbNames()
    chosen = {
        "WANDB_DIR": str(run.path.resolve()),
        "WANDB_NAME": given.name,
        "WANDB_RUN_GROUP": given.group,
        "WANDB_TAGS": ",".join(read_notes(run).tags),
        "WANDB_FINISH_TIMEOUT": str(FINISH_S),
    }
    added = {name: text for name, text in chosen.items() if text and not env.get(name)}
    return {"WANDB_RUN_ID": run.id, "WANDB_RESUME": "allow", **added}
