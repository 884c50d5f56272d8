"""Refuse what would expose a run: ports that other hosts reach, unencrypted addresses, and secrets
sent to a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace

from omegaconf import OmegaConf

from engine.base.addresses import cleartext_complaint, is_loopback
from engine.base.errors import UsageError
from engine.recipe.hub import TOKEN_VARIABLES
from engine.recipe.recipe import Recipe
from engine.recipe.secrets import VARIABLES

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


def exposing(recipe: Recipe) -> Iterator[str]:
    """Yield ``key=value`` of each value that exposes a run on this host to other hosts."""
    for key in _ADDRESSES:
        if recipe.get(key) and not is_loopback(str(recipe.get(key))):
            yield f"{key}={recipe.get(key)}"
    for name in _VARIABLES:
        key = f"{_RAY}.runtime_env.env_vars.{name}"
        if recipe.get(key) is not None:
            yield f"{key}={recipe.get(key)}"
    # On a CPU the workers are forked by a program of ours, which keeps their sockets private.
    if recipe.get("grubrics.device") == "cpu" and recipe.get(_PYTHON) is not None:
        yield f"{_PYTHON}={recipe.get(_PYTHON)}"
    if recipe.get(_STORAGE) not in _GUARDED_STORAGE:
        yield f"{_STORAGE}={recipe.get(_STORAGE)}"
    if recipe.get(_METRICS):
        yield f"{_METRICS}=true"


def exposure_complaint(recipe: Recipe) -> str | None:
    """Return one line about those values; None without any, or with ``grubrics.exposed``."""
    settings = list(exposing(recipe))
    if not settings or recipe.get("grubrics.exposed"):
        return None
    return (
        f"{', '.join(settings)}: the run would listen where other hosts reach it "
        "(docs/security.md); set grubrics.exposed=true to allow it"
    )


def require_private(recipe: Recipe) -> None:
    """Raise UsageError with ``exposure_complaint``."""
    complaint = exposure_complaint(recipe)
    if complaint:
        raise UsageError(f"{recipe.path}: {complaint}")


def cleartext_complaints(recipe: Recipe, env: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each credential that would travel unencrypted.

    The judge's key is not among them: ``find_credentials`` refuses it.
    """
    sent = [(name, "HF_ENDPOINT") for name in TOKEN_VARIABLES]
    loggers = recipe.get("trainer.logger") or recipe.get("logging.report_to") or []
    if "wandb" in loggers and env.get("WANDB_MODE", "online") == "online":
        sent.append(("WANDB_API_KEY", "WANDB_BASE_URL"))
    for credential, address in sent:
        if env.get(credential, "").strip():
            complaint = cleartext_complaint(f"{address}: {credential}", env.get(address, ""), env)
            if complaint:
                yield complaint
    hook = recipe.get("guard.webhook_variable")
    if hook and (complaint := cleartext_complaint(f"guard: {hook}", env.get(hook, ""), env)):
        yield complaint


def require_encrypted(recipe: Recipe, env: Mapping[str, str]) -> None:
    """Raise UsageError for the first of ``cleartext_complaints``."""
    for complaint in cleartext_complaints(recipe, env):
        raise UsageError(complaint)


def into_environment(recipe: Recipe, env: MutableMapping[str, str]) -> Recipe:
    """Set the variables that refer to secrets in ``env``; return ``recipe`` without them.

    Processes inherit the variables from ``env``, and no printed configuration holds them.
    """
    tree = OmegaConf.create(recipe.tree)
    for key in recipe.secret_references:
        env[key.removeprefix(VARIABLES)] = str(OmegaConf.select(tree, key))
    public = {
        key: value for key, value in recipe.values.items() if key not in recipe.secret_references
    }
    return replace(recipe, values=public, secret_references=frozenset())


def require_none(recipe: Recipe, where: str) -> None:
    """Raise UsageError for a reference to a secret: a cluster shows the variables it is sent."""
    for key in sorted(recipe.secret_references):
        name = key.removeprefix(VARIABLES)
        raise UsageError(
            f"{where}: {key} refers to a secret, and a cluster's dashboard shows the environment "
            f"of its processes; set {name} in its nodes' environment or the project's .env instead"
        )
