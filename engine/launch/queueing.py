"""A launch that waits: for another run to finish, or for its turn and free GPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from engine.base.errors import UsageError
from engine.host import gpus
from engine.host.system import open_gpus
from engine.recipe.recipe import Recipe
from engine.runs.registry import ActiveRuns
from engine.runs.rundir import RunDir, find_run
from engine.runs.state import observed_state
from engine.supervise.queue import Ticket, end_phrase


def ticket(
    recipe: Recipe,
    runs: Path,
    *,
    after: str | None,
    turn: bool,
    env: Mapping[str, str] | None = None,
) -> Ticket | None:
    """What the run waits for; None for a run that starts at once.

    UsageError when ``after`` is no run or has ended without finishing, and when GPUs are asked
    for that this machine does not have.
    """
    if after is None and not turn:
        return None
    first = None if after is None else _first(find_run(runs, after))
    count = _gpu_count(recipe, os.environ if env is None else env) if turn else 0
    return Ticket(first, turn, count, time.time())


def ahead(ticket: Ticket, runs: Path) -> list[str]:
    """The runs that will have ended when the run starts."""
    found = []
    run = ticket.after
    while run is not None and run not in found:
        found.append(run)
        earlier = Ticket.from_manifest(RunDir(runs / run).read_manifest())
        run = earlier.after if earlier else None
    if ticket.turn and not ticket.gpus:
        found += [name for name in ActiveRuns(runs).look() if name not in found]
    return found


def _first(run: RunDir) -> str:
    state = observed_state(run)
    if state.has_ended and not state.went_well:
        raise UsageError(f"--after: {end_phrase(run.id, state)}")
    return run.id


def _gpu_count(recipe: Recipe, env: Mapping[str, str]) -> int:
    if recipe.get("grubrics.device") != "cuda":
        return 0
    if recipe.kind.uses_ray and env.get("RAY_ADDRESS", "local") not in ("", "local"):
        raise UsageError(
            f"--queue waits for GPUs of this machine, and RAY_ADDRESS={env['RAY_ADDRESS']} "
            "trains on others; use --after"
        )
    key = recipe.kind.gpus_key
    wanted, devices = int(recipe.get(key)), gpus.look(open_gpus())
    if not devices:
        raise UsageError("--queue: no NVIDIA driver found on this host")
    allowed = env.get("CUDA_VISIBLE_DEVICES", gpus.ALL)
    present = len(gpus.visible(allowed, devices))
    if wanted > present:
        raise UsageError(
            f"{recipe.path}: {key}={wanted}, but --queue can choose among {present} GPUs only "
            f"(CUDA_VISIBLE_DEVICES={allowed})"
        )
    return wanted
