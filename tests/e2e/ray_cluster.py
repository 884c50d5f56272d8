"""A Ray cluster of two node processes on this machine, as a user would start it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.supervise.ray_jobs import Cluster, RefusedError, UnreachableError

RAY = str(Path(sys.executable).with_name("ray"))
START_S = 120.0


@dataclass(frozen=True)
class TwoNodes:
    """``env`` is what a client needs to be let in."""

    address: str
    env: Mapping[str, str]
    processes: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def two_nodes(directory: Path) -> Iterator[TwoNodes]:
    """A head without and a second node with a (logical) GPU. ``directory`` must be short."""
    token = directory / "token"
    token.write_text(secrets.token_hex(32))
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    gcs, dashboard = _free_ports(2)
    head = ["--head", f"--port={gcs}", "--dashboard-host=127.0.0.1", "--num-gpus=0"]
    node = [f"--address=127.0.0.1:{gcs}", "--num-gpus=1"]
    address = f"http://127.0.0.1:{dashboard}"
    with ExitStack() as stack:
        stack.enter_context(_client(env))
        first = stack.enter_context(
            _node(directory / "a", [*head, f"--dashboard-port={dashboard}"], env)
        )
        _wait_for_nodes(Cluster(address), 1)
        second = stack.enter_context(_node(directory / "b", node, env))
        _wait_for_nodes(Cluster(address), 2)
        yield TwoNodes(address, env, (first, second))


@contextmanager
def _client(env: Mapping[str, str]) -> Iterator[None]:
    """This process is a client too: it asks the job server how things are."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _node(
    directory: Path, arguments: list[str], env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    directory.mkdir()
    with (directory / "start.log").open("wb") as log:
        process = subprocess.Popen(
            # Logical CPUs: what verl reserves, whatever this machine has.
            [RAY, "start", "--block", f"--temp-dir={directory}", "--num-cpus=32", *arguments],
            env={**os.environ, **env, "RAY_USAGE_STATS_ENABLED": "0"},
            cwd=directory,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(40)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for_nodes(cluster: Cluster, count: int) -> None:
    deadline = time.monotonic() + START_S
    while _alive(cluster) < count:
        assert time.monotonic() < deadline, "the cluster did not come up"
        time.sleep(0.3)


def _alive(cluster: Cluster) -> int:
    try:
        return len(cluster.nodes())
    except (UnreachableError, RefusedError):
        return 0


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
