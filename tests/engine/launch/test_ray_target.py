"""What a launch asks of a Ray cluster before it creates anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.load import Config, load_config
from engine.launch.launcher import manifest, plan
from engine.launch.ray_target import (
    Needs,
    chosen_cluster,
    describe_target,
    exposure,
    shortage,
)
from engine.run.host.programs import own_module
from engine.supervise.ray_jobs import Cluster, Node

CONFIG = """
grubrics: {{kind: grpo, device: {device}}}
judge: {{provider: {judge}, model: m}}
data: {{train_files: none.parquet, train_batch_size: 4}}
trainer:
  n_gpus_per_node: {gpus}
  nnodes: {nodes}
  default_local_dir: checkpoints/x
  logger: [console]
"""


def config(
    folder: Path, device: str = "cuda", gpus: int = 8, nodes: int = 2, judge: str = "offline"
) -> Config:
    path = folder / "try.yaml"
    path.write_text(CONFIG.format(device=device, gpus=gpus, nodes=nodes, judge=judge))
    return load_config(str(path), (), {})


def test_each_worker_needs_a_gpu_and_three_cpus_on_its_node(tmp_path: Path) -> None:
    needs = Needs.of(config(tmp_path))
    assert (needs.nodes, needs.gpus_per_node, needs.cpus) == (2, 8, 48)
    wide, narrow = Node("10.0.0.1", cpus=64, gpus=8), Node("10.0.0.2", cpus=64, gpus=4)
    assert shortage([wide, wide], needs) is None
    assert shortage([wide, narrow, narrow], needs) == (
        "trainer.nnodes=2 x trainer.n_gpus_per_node=8 needs 2 nodes with 8 GPUs and 24 CPUs each; "
        "it has 10.0.0.1 8 GPUs 64 CPUs, 10.0.0.2 4 GPUs 64 CPUs, 10.0.0.2 4 GPUs 64 CPUs"
    )


def test_a_cpu_config_needs_logical_gpus_and_room_for_its_other_actors(tmp_path: Path) -> None:
    needs = Needs.of(config(tmp_path, device="cpu", gpus=1, nodes=1))
    assert shortage([Node("a", cpus=4, gpus=0), Node("b", cpus=8, gpus=1)], needs) is None
    assert shortage([Node("b", cpus=8, gpus=1)], needs) == (
        "the run reserves 12 CPUs; all nodes together have 8"
    )
    assert "it has no node" in str(shortage([], needs))


def test_a_cluster_that_other_hosts_reach_must_be_named(tmp_path: Path) -> None:
    nodes = [Node("10.0.0.1", cpus=64, gpus=8), Node("127.0.0.1", cpus=64, gpus=8)]
    assert exposure(nodes, config(tmp_path)) == (
        "the run would listen on 10.0.0.1, where other hosts reach it (docs/security.md lists "
        "the ports). To allow it, set grubrics.exposed=true"
    )
    meant = load_config(str(tmp_path / "try.yaml"), ["grubrics.exposed=true"], {})
    assert exposure(nodes, meant) is None


def test_a_cluster_on_loopback_exposes_nothing(tmp_path: Path) -> None:
    assert exposure([Node("127.0.0.1", cpus=64, gpus=8)], config(tmp_path)) is None


def test_an_unreachable_cluster_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--ray http://127\.0\.0\.1:1: Connection refused$"):
        chosen_cluster("127.0.0.1:1", config(tmp_path))


def test_only_grpo_configs_run_as_jobs(tmp_path: Path) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(
        "grubrics: {kind: sft}\nmodel: {path: m}\ndata: {train_file: t.jsonl}\n"
        "training: {output_dir: checkpoints/x}\n"
    )
    with pytest.raises(UsageError, match="--ray is for GRPO, not SFT"):
        chosen_cluster("127.0.0.1:1", load_config(str(path), (), {}))


def test_the_plan_names_the_secrets_that_the_cluster_must_have_itself(tmp_path: Path) -> None:
    cluster = Cluster("http://head:8265")
    line = describe_target(cluster, config(tmp_path, judge="openai"))
    assert line.startswith("on the Ray cluster http://head:8265; its nodes need OPENAI_API_KEY")
    assert describe_target(cluster, config(tmp_path)) == "on the Ray cluster http://head:8265"


def test_the_manifest_says_describe_target(tmp_path: Path) -> None:
    launch_plan = plan(config(tmp_path), "try", tmp_path, ray="http://head:8265")
    result = manifest(launch_plan)
    assert result.ray == "http://head:8265"
    assert "engine.train.grpo" in result.argv[:4]
    command = result.attempts[0].argv
    assert command[:-6] == own_module("engine.supervise.ray_jobs", "http://head:8265", "--")
    assert command[-6:-3] == (sys.executable, "-m", "engine.train.grpo")
