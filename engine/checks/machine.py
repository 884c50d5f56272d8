"""Check for other active runs on this machine, and that the ports of this run are free."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from engine.base.jsonl import line
from engine.checks.check import Check, Subject, fail, ok, summary, warn
from engine.run.host.gpus import ALL
from engine.run.processes import marked
from engine.run.registry import ActiveRuns
from engine.run.run import RUN_ID_VARIABLE, Run
from engine.run.state import RunState, observed_state, this_host

_MACHINE = "machine"


def check_machine(subject: Subject) -> Check:
    """Name the active runs on this host that this one would not wait for.

    Two runs on one GPU are short of memory; two on one CPU are each half as fast. Runs of other
    runs directories are found by their processes; a queue does not wait for them.
    """
    if subject.uses_cluster:
        return ok(_MACHINE, f"the cluster at {subject.env['RAY_ADDRESS']} runs the training")
    active = ActiveRuns(subject.runs).read()
    # A run whose command launches this one, such as a pipeline, only waits for it.
    active.pop(subject.env.get(RUN_ID_VARIABLE, ""), None)
    neighbors = {
        name: state
        for name, state in active.items()
        if name not in subject.ahead
        and state.state != "queued"
        and state.host in (None, this_host())
        and not Run(subject.runs / name).follows_files
    }
    elsewhere = _runs_of_other_directories(subject)
    if not neighbors and not elsewhere:
        waited = ", ".join(sorted(subject.ahead & active.keys()))
        others = f"no other active run of yours on this host{' than ' if waited else ''}{waited}"
        return ok(_MACHINE, f"{others}, for which this one waits" if waited else others)
    if subject.waits and not elsewhere:
        return ok(_MACHINE, f"active; this run is queued until they end: {', '.join(neighbors)}")
    messages = [
        _describe_run(f"'{name}'", state, subject)
        for name, state in ({} if subject.waits else neighbors).items()
    ]
    for run, state in elsewhere.items():
        folder = line(str(run.path.parent))
        messages.append(_describe_run(f"'{run.id}' of {folder}", state, subject))
    if elsewhere:
        messages.append("--queue does not wait for runs of another runs directory")
    can_wait = neighbors and not subject.waits
    config = shlex.join([str(subject.config.path), *subject.config.overrides])
    fix = f"grubrics-tui launch {config} --queue" if can_wait else None
    return warn(_MACHINE, "; ".join(messages), fix)


def _runs_of_other_directories(subject: Subject) -> dict[Run, RunState]:
    """Active runs of this user on this host that are not below ``subject.runs``."""
    here = subject.runs.resolve()
    directories = {mark.directory for _, mark in marked() if mark.directory.parent != here}
    runs = [Run(directory) for directory in sorted(directories)]
    states = {run: observed_state(run) for run in runs if run.manifest_file.exists()}
    return {
        run: state
        for run, state in states.items()
        if not state.has_ended and state.state != "queued" and not run.follows_files
    }


def _describe_run(name: str, state: RunState, subject: Subject) -> str:
    total = f" of {state.total_steps}" if state.total_steps else ""
    step = f" at step {state.step or 0}{total}" if state.step or state.total_steps else ""
    return f"run {name} is {state.state}{step} and shares {_shared_devices(state, subject)}"


def _shared_devices(state: RunState, subject: Subject) -> str:
    """Name the GPUs that both runs would use, as in CUDA_VISIBLE_DEVICES; or CPU and memory."""
    if subject.config.get("grubrics.device") != "cuda" or state.gpus is None:
        return "the CPU and the memory"
    visible = subject.env.get("CUDA_VISIBLE_DEVICES", ALL)
    if ALL in (visible, state.gpus):
        shared = visible if state.gpus == ALL else state.gpus
        return "every GPU" if shared == ALL else f"GPU {shared}"
    shared = ",".join(name for name in visible.split(",") if name in state.gpus.split(","))
    return f"GPU {shared}" if shared else "the CPU and the memory, but no GPU"


_PORTS = "ports"
_MAX_PORT = 65535


@dataclass(frozen=True)
class FixedPort:
    """A port that a key or variable names, so that no other port can replace it."""

    source: str
    number: int


def check_ports(subject: Subject) -> Check:
    """Try every fixed port. Ports that are chosen at the launch cannot clash."""
    ports = list(fixed_ports(subject))
    problems = []
    for port in ports:
        if (reason := obstacle(port.number)) is not None:
            later = range(port.number + 1, _MAX_PORT + 1)
            free = next((number for number in later if obstacle(number) is None), 0)
            holder = _describe_holder(port.number)
            message = f"{port.source}={port.number}: {reason.lower()}{holder}"
            problems.append(fail(_PORTS, message, f"{port.source}={free}"))
    names = ", ".join(f"{port.source}={port.number}" for port in ports)
    ok_message = f"free: {names}" if ports else "no fixed ports; free ports are chosen at launch"
    return summary(_PORTS, problems, ok_message)


def fixed_ports(subject: Subject) -> Iterator[FixedPort]:
    """Yield the ports that the config and the environment fix."""
    config, ray = subject.config, "ray_kwargs.ray_init"
    if config.get("training.master_port"):
        yield FixedPort("training.master_port", int(config.get("training.master_port")))
    if config.get(f"{ray}.include_dashboard") and config.get(f"{ray}.dashboard_port"):
        key = f"{ray}.dashboard_port"
        yield FixedPort(key, int(config.get(key)))
    if subject.env.get("MASTER_PORT", "").isdigit():
        yield FixedPort("MASTER_PORT", int(subject.env["MASTER_PORT"]))


def obstacle(port: int) -> str | None:
    """Return why this process cannot listen on ``port`` now; None if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Otherwise a port is refused for a minute after its last connection was closed.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return None


def _describe_holder(port: int) -> str:
    """Describe the process that listens, if it is visible without privileges."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ""
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN
        address = connection.laddr
        if listens and address and address.port == port and connection.pid is not None:
            try:
                name = str(psutil.Process(connection.pid).name())
            except psutil.Error:
                name = "has ended"
            return f" by process {connection.pid} ({name})"
    return ""
