"""Queue a launch: until another run finishes, or until its turn comes and GPUs are free."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.base.errors import UsageError
from engine.config.load import Config
from engine.run.host import gpus
from engine.run.host.system import open_gpus
from engine.run.manifest import Ticket
from engine.run.registry import ActiveRuns
from engine.run.run import Run, find_run
from engine.run.state import observed_state
from engine.supervise.hosts import find_host
from engine.supervise.queue import end_phrase


def ticket(
    config: Config,
    runs: Path,
    *,
    after: str | None,
    turn: bool,
    env: Mapping[str, str] | None = None,
) -> Ticket | None:
    """What the run waits for; None for a run that starts at once.

    UsageError if there is no run ``after``, if it ended without finishing, or if the config needs
    more GPUs than this machine has.
    """
    return ticket_for(
        runs,
        after=after,
        turn=turn,
        count_gpus=lambda: _gpu_count(config, os.environ if env is None else env),
    )


def ticket_for(
    runs: Path, *, after: str | None, turn: bool, count_gpus: Callable[[], int]
) -> Ticket | None:
    """The same for a run whose number of GPUs ``count_gpus`` returns; called only with ``turn``."""
    if after is None and not turn:
        return None
    predecessor = None
    if after is not None:
        run = find_run(runs, after)
        state = observed_state(run)
        if state.has_ended and not (state.went_well or find_host(run).has_unknown_end()):
            raise UsageError(f"--after: {end_phrase(run.id, state)}")
        predecessor = run.id
    return Ticket(predecessor, turn, count_gpus() if turn else 0, time.time())


def ahead(ticket: Ticket, runs: Path) -> list[str]:
    """The runs that will have ended when the run starts."""
    names = []
    run = ticket.after
    while run is not None and run not in names:
        names.append(run)
        earlier = Run(runs / run).read_manifest().queue
        run = earlier.after if earlier else None
    if ticket.turn and not ticket.gpus:
        names += [name for name in ActiveRuns(runs).read() if name not in names]
    return names


def _gpu_count(config: Config, env: Mapping[str, str]) -> int:
    if config.get("grubrics.device") != "cuda":
        return 0
    if config.kind.uses_ray and env.get("RAY_ADDRESS", "local") not in ("", "local"):
        raise UsageError(
            f"--queue waits for GPUs of this machine, and RAY_ADDRESS={env['RAY_ADDRESS']} "
            "trains on others; use --after"
        )
    key = config.kind.gpus_key
    wanted, devices = int(config.get(key)), gpus.read_devices(open_gpus())
    if not devices:
        raise UsageError("--queue: no NVIDIA driver found on this host")
    allowed = env.get("CUDA_VISIBLE_DEVICES", gpus.ALL)
    present = len(gpus.visible(allowed, devices))
    if wanted > present:
        raise UsageError(
            f"{config.path}: {key}={wanted}, but --queue can choose among {present} GPUs only "
            f"(CUDA_VISIBLE_DEVICES={allowed})"
        )
    return wanted
