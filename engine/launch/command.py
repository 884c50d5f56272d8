"""Launch any command as a run: the same supervisor, states, queue and logs, without a config."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.masking import mask_text
from engine.host import gpus
from engine.host.surroundings import surroundings
from engine.host.system import open_gpus
from engine.launch.launcher import choose_directory, start_run
from engine.launch.queueing import ticket_for
from engine.runs.kinds import COMMAND
from engine.runs.marks import new_mark
from engine.runs.rundir import RunDir
from engine.supervise.queue import Ticket

_SCRIPT = re.compile(r"[\w./~-]+\.(?:py|sh)")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class CommandPlan:
    """Everything that launching a command will do."""

    directory: Path
    argv: tuple[str, ...]
    cwd: Path
    ticket: Ticket | None
    gpus: int
    """How many GPUs it may use; a run that may use one has them in its state."""

    @property
    def shown_argv(self) -> list[str]:
        """The command without the secrets in it."""
        return shlex.split(mask_text(shlex.join(self.argv)))


def plan_command(
    argv: Sequence[str],
    runs: Path,
    *,
    name: str | None = None,
    cwd: Path | None = None,
    after: str | None = None,
    queue: bool = False,
) -> CommandPlan:
    """Plan a run of ``argv`` in the folder ``cwd``. Nothing is written.

    UsageError for a missing program or folder, an invalid or taken name, or an invalid ``after``.
    """
    folder = (cwd or Path.cwd()).absolute()
    if not folder.is_dir():
        raise UsageError(f"--cwd: {folder} is not a folder")
    _require_program(argv[0], folder)
    count = _visible_gpus()
    return CommandPlan(
        directory=choose_directory(runs, name, _stem(argv)),
        argv=tuple(argv),
        cwd=folder,
        ticket=ticket_for(runs, after=after, turn=queue, count_gpus=lambda: count),
        gpus=count,
    )


def launch_command(plan: CommandPlan) -> RunDir:
    """Create the run directory and start its supervisor, detached from this process.

    UsageError if the directory cannot be written or the supervisor does not start.
    """
    return start_run(plan.directory, lambda: _manifest(plan))


def _manifest(plan: CommandPlan) -> dict[str, Any]:
    run_id, now = plan.directory.name, time.time()
    return {
        "v": 1,
        "id": run_id,
        "mark": new_mark(),
        "name": run_id,
        "recipe": _program_name(plan.argv),
        "kind": COMMAND,
        "argv": plan.shown_argv,
        "cwd": str(plan.cwd),
        "created": now,
        "config": {},
        "changes": [],
        **_surroundings(plan.cwd),
        "total_steps": None,
        "gpus": plan.gpus,
        "queue": plan.ticket.to_json() if plan.ticket else None,
        "attempts": [{"number": 1, "started": now, "argv": list(plan.argv)}],
    }


def _surroundings(cwd: Path) -> Mapping[str, Any]:
    """Git state and machine. The packages of this interpreter say nothing about the program's."""
    parts = surroundings(cwd, None, [])
    return {name: parts[name] for name in ("git", "hardware")}


def _require_program(program: str, cwd: Path) -> None:
    """Raise UsageError if there is no such program. A relative path begins in ``cwd``."""
    found = shutil.which(cwd / program if os.sep in program else program)
    if found is None:
        raise UsageError(f"'{program}': no such program. Usage: grubrics-tui run -- COMMAND")


def _visible_gpus() -> int:
    """The GPUs that the command can use: those of CUDA_VISIBLE_DEVICES, else all."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES", gpus.ALL)
    return len(gpus.visible(allowed, gpus.read_devices(open_gpus())))


def _program_name(argv: Sequence[str]) -> str:
    """The script that the command runs, else its program."""
    script = next((word for word in argv if _SCRIPT.fullmatch(word)), argv[0])
    return Path(script).name


def _stem(argv: Sequence[str]) -> str:
    """The beginning of the run's ID."""
    return _NO_NAME.sub("-", Path(_program_name(argv)).stem).strip("-._")[:80] or "run"
