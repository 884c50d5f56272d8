"""Does another run use this machine at the moment?"""

from __future__ import annotations

from engine.host.gpus import ALL
from engine.preflight.check import Check, Subject, ok, warn
from engine.runs.active import ActiveRuns
from engine.runs.state import RunState, this_host

ID = "machine"


def check(subject: Subject) -> Check:
    """Name the active runs on this host that this one would not wait for.

    Two runs on one GPU are short of memory; two on one CPU are each half as fast.
    """
    if subject.env.get("RAY_ADDRESS", "local") not in ("", "local"):
        return ok(ID, f"the cluster at {subject.env['RAY_ADDRESS']} trains it")
    if not (others := _others(subject)):
        return ok(ID, "no other run is active here")
    if subject.waits:
        return ok(ID, f"active now, and this run waits for its turn: {', '.join(others)}")
    named = "; ".join(_phrase(name, state, subject) for name, state in others.items())
    return warn(ID, named, f"grubrics-tui launch {subject.recipe.path} --queue")


def _others(subject: Subject) -> dict[str, RunState]:
    active = ActiveRuns(subject.runs).look()
    return {
        name: state
        for name, state in active.items()
        if name not in subject.ahead
        and state.state != "queued"
        and state.host in (None, this_host())
    }


def _phrase(name: str, state: RunState, subject: Subject) -> str:
    total = f" of {state.total_steps}" if state.total_steps else ""
    at = f" at step {state.step or 0}{total}" if state.step or state.total_steps else ""
    return f"run '{name}' is {state.state}{at} and shares {_shared(state, subject)}"


def _shared(state: RunState, subject: Subject) -> str:
    """What both would use: the GPUs as CUDA_VISIBLE_DEVICES names them, or CPU and memory."""
    if subject.recipe.get("grubrics.device") != "cuda" or state.gpus is None:
        return "the CPU and the memory"
    mine = subject.env.get("CUDA_VISIBLE_DEVICES", ALL)
    if ALL in (mine, state.gpus):
        both = mine if state.gpus == ALL else state.gpus
        return "every GPU" if both == ALL else f"GPU {both}"
    both = ",".join(name for name in mine.split(",") if name in state.gpus.split(","))
    return f"GPU {both}" if both else "the CPU and the memory, but no GPU"
