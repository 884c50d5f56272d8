"""Check for other active runs on this machine, and that the ports of this run are free."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from engine.host.gpus import ALL
from engine.preflight.check import Check, Subject, fail, ok, summary, warn
from engine.runs.registry import ActiveRuns
from engine.runs.state import RunState, this_host

_MACHINE = "machine"


def check_machine(subject: Subject) -> Check:
    """Name the active runs on this host that this one would not wait for.

    Two runs on one GPU are short of memory; two on one CPU are each half as fast.
    """
    if subject.env.get("RAY_ADDRESS", "local") not in ("", "local"):
        return ok(_MACHINE, f"the cluster at {subject.env['RAY_ADDRESS']} runs the training")
    if not (others := _others(subject)):
        return ok(_MACHINE, "no other active run on this host")
    if subject.waits:
        return ok(_MACHINE, f"active; this run is queued until they end: {', '.join(others)}")
    named = "; ".join(_phrase(name, state, subject) for name, state in others.items())
    return warn(_MACHINE, named, f"grubrics-tui launch {subject.recipe.path} --queue")


def _others(subject: Subject) -> dict[str, RunState]:
    active = ActiveRuns(subject.runs).read()
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


_PORTS = "ports"
_HIGHEST = 65535


@dataclass(frozen=True)
class FixedPort:
    """A port that a key or variable names, so that no other can be taken instead."""

    source: str
    number: int


def check_ports(subject: Subject) -> Check:
    """Every fixed port is tried; ports that are chosen at the start cannot clash."""
    ports = list(fixed_ports(subject))
    busy = [_busy(port, problem) for port in ports if (problem := obstacle(port.number))]
    named = ", ".join(f"{port.source}={port.number}" for port in ports)
    return summary(
        _PORTS,
        busy,
        f"free: {named}" if ports else "no fixed ports; free ports are chosen at launch",
    )


def fixed_ports(subject: Subject) -> Iterator[FixedPort]:
    """The ports this recipe and environment fix."""
    recipe, ray = subject.recipe, "ray_kwargs.ray_init"
    if recipe.get("training.master_port"):
        yield FixedPort("training.master_port", int(recipe.get("training.master_port")))
    if recipe.get(f"{ray}.include_dashboard") and recipe.get(f"{ray}.dashboard_port"):
        key = f"{ray}.dashboard_port"
        yield FixedPort(key, int(recipe.get(key)))
    if subject.env.get("MASTER_PORT", "").isdigit():
        yield FixedPort("MASTER_PORT", int(subject.env["MASTER_PORT"]))


def obstacle(port: int) -> str | None:
    """Why this process could not listen on ``port`` now; None when it could."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without it a port is refused for a minute after its last connection was closed.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return None


def _busy(port: FixedPort, problem: str) -> Check:
    free = next((n for n in range(port.number + 1, _HIGHEST + 1) if obstacle(n) is None), 0)
    message = f"{port.source}={port.number}: {problem.lower()}{_holder(port.number)}"
    return fail(_PORTS, message, f"{port.source}={free}")


def _holder(port: int) -> str:
    """Who listens; other users' processes cannot be seen without privileges."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ""
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN
        address = connection.laddr
        if listens and address and address.port == port and connection.pid is not None:
            return f" by process {connection.pid} ({_name(connection.pid)})"
    return ""


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "ended meanwhile"
