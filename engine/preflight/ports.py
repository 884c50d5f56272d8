"""Are the ports free that the run will listen on?"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from engine.preflight.check import Check, Subject, fail, summary

ID = "ports"
_HIGHEST = 65535


@dataclass(frozen=True)
class FixedPort:
    """A port that a key or variable names, so that no other can be taken instead."""

    source: str
    number: int


def check(subject: Subject) -> Check:
    """Every fixed port is tried; ports that are chosen at the start cannot clash."""
    ports = list(fixed_ports(subject))
    busy = [_busy(port, problem) for port in ports if (problem := obstacle(port.number))]
    named = ", ".join(f"{port.source}={port.number}" for port in ports)
    return summary(
        ID, busy, f"free: {named}" if ports else "no fixed port; the launch chooses free ones"
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
    return fail(ID, message, f"{port.source}={free}")


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
