"""Refuse what would expose a run: ports that other hosts reach, unencrypted addresses, and secrets
sent to a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace

from omegaconf import OmegaConf

from engine.base.addresses import cleartext_complaint, is_loopback
from engine.base.errors import UsageError
from engine.config.hub import TOKEN_VARIABLES
from engine.config.load import Config
from engine.config.secrets import VARIABLES

_RAY = "ray_kwargs.ray_init"
_ADDRESSES = (f"{_RAY}.dashboard_host", f"{_RAY}._node_ip_address")
_VARIABLES = (
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "VLLM_HOST_IP",
)
_PYTHON = f"{_RAY}.runtime_env.py_executable"
_STORAGE = "transfer_queue.backend.storage_backend"
_GUARDED_STORAGE = ("SimpleStorage", "RayStore", None)
_METRICS = "transfer_queue.metrics.enabled"


def exposing(config: Config) -> Iterator[str]:
    """Yield ``key=value`` of each value that exposes a run on this host to other hosts."""
    for key in _ADDRESSES:
        if config.get(key) and not is_loopback(str(config.get(key))):
            yield f"{key}={config.get(key)}"
    for name in _VARIABLES:
        key = f"{_RAY}.runtime_env.env_vars.{name}"
        if config.get(key) is not None:
            yield f"{key}={config.get(key)}"
    # On a CPU the workers are forked by a program of ours, which keeps their sockets private.
    if config.get("grubrics.device") == "cpu" and config.get(_PYTHON) is not None:
        yield f"{_PYTHON}={config.get(_PYTHON)}"
    if config.get(_STORAGE) not in _GUARDED_STORAGE:
        yield f"{_STORAGE}={config.get(_STORAGE)}"
    if config.get(_METRICS):
        yield f"{_METRICS}=true"


def exposure_complaint(config: Config) -> str | None:
    """Return one line about those values; None without any, or with ``grubrics.exposed``."""
    settings = list(exposing(config))
    if not settings or config.get("grubrics.exposed"):
        return None
    return (
        f"{', '.join(settings)}: the run would listen where other hosts reach it "
        "(docs/security.md); set grubrics.exposed=true to allow it"
    )


def require_private(config: Config) -> None:
    """Raise UsageError with ``exposure_complaint``."""
    complaint = exposure_complaint(config)
    if complaint:
        raise UsageError(f"{config.path}: {complaint}")


def cleartext_complaints(config: Config, env: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each credential that would travel unencrypted.

    The judge's key is not among them: ``find_credentials`` refuses it.
    """
    sent = [(name, "HF_ENDPOINT") for name in TOKEN_VARIABLES]
    loggers = config.listed(config.kind.loggers_key)
    if "wandb" in loggers and env.get("WANDB_MODE", "online") == "online":
        sent.append(("WANDB_API_KEY", "WANDB_BASE_URL"))
    for credential, address in sent:
        if env.get(credential, "").strip():
            complaint = cleartext_complaint(f"{address}: {credential}", env.get(address, ""), env)
            if complaint:
                yield complaint
    hook = config.get("guard.webhook_variable")
    if hook and (complaint := cleartext_complaint(f"guard: {hook}", env.get(hook, ""), env)):
        yield complaint


def require_encrypted(config: Config, env: Mapping[str, str]) -> None:
    """Raise UsageError for the first of ``cleartext_complaints``."""
    for complaint in cleartext_complaints(config, env):
        raise UsageError(complaint)


def into_environment(config: Config, env: MutableMapping[str, str]) -> Config:
    """Set the variables that refer to secrets in ``env``; return ``config`` without them.

    Processes inherit the variables from ``env``, and no printed configuration holds them.
    """
    tree = OmegaConf.create(config.tree)
    for key in config.secret_references:
        env[key.removeprefix(VARIABLES)] = str(OmegaConf.select(tree, key))
    public = {
        key: value for key, value in config.values.items() if key not in config.secret_references
    }
    return replace(config, values=public, secret_references=frozenset())


def require_none(config: Config, where: str) -> None:
    """Raise UsageError for a reference to a secret: a cluster shows the variables it is sent."""
    for key in sorted(config.secret_references):
        name = key.removeprefix(VARIABLES)
        raise UsageError(
            f"{where}: {key} refers to a secret, and a cluster's dashboard shows the environment "
            f"of its processes; set {name} in its nodes' environment or the project's .env instead"
        )
