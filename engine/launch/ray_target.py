"""Launch on an existing Ray cluster: check the cluster before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.addresses import is_loopback
from engine.base.errors import UsageError
from engine.base.judge_providers import find_provider
from engine.base.quantities import format_count
from engine.config.compose import CPUS_FOR_ACTORS, CPUS_PER_WORKER, verl_config
from engine.config.exposure import require_none
from engine.config.load import Config
from engine.config.scoring import asks_judge
from engine.supervise.ray_jobs import Cluster, Node, RefusedError, UnreachableError, parse_address


def chosen_cluster(address: str | None, config: Config) -> Cluster | None:
    """The cluster that ``--ray`` names, ready for ``config``; None without the option.

    UsageError, in one line, if ``config`` cannot run there.
    """
    if address is None:
        return None
    cluster = parse_address(address)
    if not config.kind.uses_ray:
        raise UsageError(f"{config.path}: --ray is for GRPO, not {config.kind.title}")
    require_none(config, f"--ray {cluster.address}")
    require_cluster(cluster, config)
    return cluster


def require_cluster(cluster: Cluster, config: Config) -> None:
    """Raise UsageError if ``cluster`` does not answer or is too small for ``config``."""
    try:
        cluster.version()
        nodes = cluster.nodes()
    except (UnreachableError, RefusedError) as error:
        raise UsageError(f"--ray {cluster.address}: {error}") from error
    refusal = shortage(nodes, Needs.of(config)) or exposure(nodes, config)
    if refusal:
        raise UsageError(f"--ray {cluster.address}: {refusal}")


@dataclass(frozen=True)
class Needs:
    """What a config reserves, in Ray's logical units: a CPU config's workers take a GPU each too.

    ``cpus`` is a lower bound for the whole cluster.
    """

    nodes: int
    gpus_per_node: int
    cpus: int

    @classmethod
    def of(cls, config: Config) -> Needs:
        trainer = verl_config(config, Path())["trainer"]
        nodes, workers = int(trainer["nnodes"]), int(trainer["n_gpus_per_node"])
        actors = CPUS_FOR_ACTORS if config.get("grubrics.device") == "cpu" else 0
        return cls(nodes, workers, nodes * workers * CPUS_PER_WORKER + actors)


def shortage(nodes: Sequence[Node], needs: Needs) -> str | None:
    """What an idle cluster lacks; None if it has enough."""
    wide = [
        node
        for node in nodes
        if node.gpus >= needs.gpus_per_node and node.cpus >= needs.gpus_per_node * CPUS_PER_WORKER
    ]
    if len(wide) < needs.nodes:
        offered = ", ".join(f"{n.address} {n.gpus:g} GPUs {n.cpus:g} CPUs" for n in nodes[:8])
        count, gpus = format_count(needs.nodes, "node"), format_count(needs.gpus_per_node, "GPU")
        return (
            f"trainer.nnodes={needs.nodes} x trainer.n_gpus_per_node={needs.gpus_per_node} needs "
            f"{count} with {gpus} and "
            f"{needs.gpus_per_node * CPUS_PER_WORKER} CPUs each; it has {offered or 'no node'}"
        )
    total = sum(node.cpus for node in nodes)
    if total < needs.cpus:
        return f"the run reserves {needs.cpus} CPUs; all nodes together have {total:g}"
    return None


def exposure(nodes: Sequence[Node], config: Config) -> str | None:
    """Why other hosts could reach the run; None if they cannot, or if the config allows it."""
    reachable = sorted({node.address for node in nodes if not is_loopback(node.address)})
    if not reachable or config.get("grubrics.exposed"):
        return None
    return (
        f"the run would listen on {', '.join(reachable[:4])}, where other hosts reach it "
        "(docs/security.md lists the ports). To allow it, set grubrics.exposed=true"
    )


def describe_target(cluster: Cluster, config: Config) -> str:
    """One line of the plan: the cluster, and the secrets that its nodes must provide."""
    names = ", ".join(needed_variables(config))
    needs = f"; its nodes need {names} in their environment or the project's .env" if names else ""
    return f"on the Ray cluster {cluster.address}{needs}"


def needed_variables(config: Config) -> tuple[str, ...]:
    """Secrets that the job's processes need; they are never sent to the cluster."""
    judge = find_provider(config.get("judge.provider")) if asks_judge(config) else None
    wandb = ("WANDB_API_KEY",) if "wandb" in (config.get("trainer.logger") or []) else ()
    return (*(judge.needed_variables if judge else ()), *wandb)
