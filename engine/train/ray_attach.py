"""Training on a Ray cluster that was there before the run and stays after it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.config.env_file import load_env_file
from engine.run.run import DETERMINISTIC_VARIABLE, ON_CLUSTER_VARIABLE
from engine.supervise.ray_jobs import CARRIED, read_job
from engine.train import environment, patches, phases, ray_session, skipped_updates
from engine.train.queue_key import FILE_VARIABLE
from engine.train.ray_driver import not_shared_message

PROJECT_VARIABLE = "GRUBRICS_PROJECT"
# The other options of ray.init describe a private instance; Ray refuses them here.
_CLUSTER_OPTIONS = ("runtime_env", "namespace", "log_to_driver", "logging_level", "logging_format")
_OURS = (
    *(FILE_VARIABLE, phases.VARIABLE, phases.VENDOR_VARIABLE),
    *(skipped_updates.VARIABLE, DETERMINISTIC_VARIABLE),
)
_CHECK_S = 600.0
"""On a busy node, Ray needs minutes to start a worker."""


class NotSharedError(Exception):
    """Nodes of the cluster do not see the run directory, or do not say whether they do."""


def should_attach(env: Mapping[str, str], device: str) -> bool:
    """Whether to train on a cluster: a job of ours does, or a GPU run by hand with RAY_ADDRESS."""
    by_hand = device != "cpu" and env.get("RAY_ADDRESS", "local") not in ("", "local")
    return ON_CLUSTER_VARIABLE in env or by_hand


def with_cluster_options(config: dict[str, Any]) -> dict[str, Any]:
    """Return ``config`` with only those ``ray_kwargs.ray_init`` that an existing cluster takes."""
    options = config["ray_kwargs"]["ray_init"]
    accepted = {key: options[key] for key in _CLUSTER_OPTIONS if options.get(key) is not None}
    return {**config, "ray_kwargs": {**config["ray_kwargs"], "ray_init": accepted}}


def with_runtime_env(
    runtime: dict[str, Any], env: Mapping[str, str], device: str
) -> dict[str, Any]:
    """``runtime`` with what every worker of the run needs.

    Workers of a cluster inherit their node's environment, not this process's. All of it shows in
    Ray's dashboard: no secrets.
    """
    needed: dict[str, str] = {}
    environment.prepare(needed, device)
    variables = {
        **runtime["env_vars"],
        **{name: env[name] for name in (*needed, *CARRIED, *_OURS) if name in env},
        ON_CLUSTER_VARIABLE: "1",
        PROJECT_VARIABLE: str(Path.cwd()),
    }
    hook = f"{__name__}.enter_project"
    return {**runtime, "env_vars": variables, ray_session.HOOK: hook}


def enter_project() -> None:
    """Ray runs this in every worker: paths in configs are relative to the project folder."""
    project = Path(os.environ[PROJECT_VARIABLE])
    if project.is_dir():  # If not, ``require_shared`` reports it.
        os.chdir(project)
        load_env_file(os.environ)
    patches.apply_to_sockets()
    ray_session.run_own_hook()


def require_shared(attempt: Path) -> None:
    """Raise NotSharedError unless every node of the cluster sees the attempt's directory."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    job = read_job(attempt)
    if job is None:  # a run by hand
        return
    task = ray.remote(num_cpus=0, max_retries=0)(_read_job_id)
    nodes = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
    answers = {
        node: task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
        ).remote(str(attempt))
        for node in nodes
    }
    blind: set[str] = set()
    silent: set[str] = set()
    for node, answer in answers.items():
        try:
            if ray.get(answer, timeout=_CHECK_S) != job.submission_id:
                blind.add(nodes[node])
        except ray.exceptions.RayError as error:
            silent.add(f"{nodes[node]} ({_format_reason(error)})")
    if blind:
        raise NotSharedError(not_shared_message(sorted(blind), attempt))
    if silent:
        raise NotSharedError(
            f"RayJobError: no answer whether {', '.join(sorted(silent))} sees {attempt}"
        )


def _read_job_id(attempt: str) -> str | None:
    job = read_job(Path(attempt))
    return job.submission_id if job else None


def _format_reason(error: Exception) -> str:
    """Ray's errors end with the exception of the worker, after its traceback."""
    from ray.exceptions import GetTimeoutError

    if isinstance(error, GetTimeoutError):
        return f"Ray started no worker there within {_CHECK_S:.0f} s"
    return str(error).strip().rpartition("\n")[2]
