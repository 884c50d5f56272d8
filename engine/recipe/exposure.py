"""Values of a recipe that let a run listen where other hosts reach it: asked for by name only."""

from __future__ import annotations

from collections.abc import Iterator

from engine.base.addresses import is_loopback
from engine.base.errors import UsageError
from engine.recipe.recipe import Recipe

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
    """``key=value`` of each such value, in a run on this host."""
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
    """One line about those values; None where there are none, or where they are meant."""
    found = list(exposing(recipe))
    if not found or recipe.get("grubrics.exposed"):
        return None
    return (
        f"{', '.join(found)}: the run would listen where other hosts reach it (docs/security.md); "
        "set grubrics.exposed=true if that is meant"
    )


def require_private(recipe: Recipe) -> None:
    """Raise UsageError with ``exposure_complaint``."""
    complaint = exposure_complaint(recipe)
    if complaint:
        raise UsageError(f"{recipe.path}: {complaint}")
