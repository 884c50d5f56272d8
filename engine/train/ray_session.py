"""A private Ray instance for one run: own directory, own token, on loopback, gone with the run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.supervise import private_ray
from engine.train import patches, queue_key

# Ray's default lets a driver wait a minute for a control service that was killed. Private services
# are never restarted, so there is nothing to wait for.
GCS_PATIENCE_S = 5

HOOK = "worker_process_setup_hook"
HOOK_VARIABLE = "GRUBRICS_WORKER_HOOK"
"""Names the config's own hook, ``module.function``: Ray runs one hook only, which is ours."""

LOOPBACK_INTERFACE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Keeps torch's collectives on this host. It replaces what the shell sets for runs on a cluster."""

LOOPBACK = {
    # Ray's own switch for "this host alone": its services announce 127.0.0.1 and listen there.
    patches.LOOPBACK_VARIABLE: "0",
    "VLLM_HOST_IP": "127.0.0.1",
    **LOOPBACK_INTERFACE,
}
"""Keeps every socket of a run on this host."""


@contextmanager
def private_instance(attempt: Path) -> Iterator[Path]:
    """Set the environment for a private Ray; yields its directory, removed at the end.

    Call before ``ray`` is imported: its C++ side reads the environment at import. A driver that is
    killed leaves the directory to its supervisor, which finds it in the attempt.
    """
    directory = private_ray.create(attempt)
    os.environ.update(
        RAY_ADDRESS="local",
        RAY_TMPDIR=str(directory),
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
    os.environ.update(LOOPBACK)
    queue_key.create(directory, os.environ)
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(GCS_PATIENCE_S))
    # A port that was fixed for another instance is taken; without it Ray picks a free one.
    os.environ.pop("RAY_GCS_SERVER_PORT", None)
    try:
        yield directory
    finally:
        private_ray.remove(attempt)


def combined(runtime: Mapping[str, Any], config_env: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's ``runtime_env`` with that of the config, which comes last.

    A hook of the config runs after that of ``runtime``.
    """
    config_env = {key: value for key, value in config_env.items() if value is not None}
    variables = {**runtime.get("env_vars", {}), **config_env.get("env_vars", {})}
    if HOOK in runtime and HOOK in config_env:
        variables[HOOK_VARIABLE] = config_env.pop(HOOK)
    return {**runtime, **config_env, "env_vars": variables}


def secure_worker() -> None:
    """Ray runs this first in every worker of an instance whose workers are not forked."""
    patches.apply_to_sockets()
    run_own_hook()


def run_own_hook() -> None:
    """The hook that the config names. Its errors end the worker, as Ray does it."""
    module, _, function = os.environ.get(HOOK_VARIABLE, "").rpartition(".")
    if module:
        getattr(import_module(module), function)()
