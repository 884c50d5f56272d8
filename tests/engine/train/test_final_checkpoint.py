"""Checkpoints are loaded as data: what verl saves loads, and nothing that could execute does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from engine.base.errors import UsageError
from engine.train.final_checkpoint import allow_checkpoint_classes, merged_state


class Command:
    """What an attacker would put into a shard: unpickling it creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


@pytest.fixture
def sharded(tmp_path: Path) -> Iterator[torch.Tensor]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield distribute_tensor(torch.eye(2), init_device_mesh("cpu", (1,)), [Shard(0)])
    finally:
        dist.destroy_process_group()


def test_shards_of_ranks_are_joined(tmp_path: Path, sharded: torch.Tensor) -> None:
    torch.save({"w": sharded, "b": torch.ones(1)}, tmp_path / "model_world_size_1_rank_0.pt")
    state = merged_state(tmp_path)
    assert torch.equal(state["w"], torch.eye(2)) and torch.equal(state["b"], torch.ones(1))


def test_a_shard_that_would_execute_something_is_refused(tmp_path: Path) -> None:
    shard, target = tmp_path / "model_world_size_1_rank_0.pt", tmp_path / "ran"
    torch.save({"w": Command(target)}, shard)
    with pytest.raises(UsageError, match=rf"{shard.name}: contains more than weights"):
        merged_state(tmp_path)
    assert not target.exists()


def test_what_a_step_holds_is_data(tmp_path: Path, sharded: torch.Tensor) -> None:
    step = tmp_path / "extra.pt"
    torch.save({"rng": {"numpy": np.random.get_state()}, "optimizer": {0: sharded}}, step)
    allow_checkpoint_classes()
    loaded = torch.load(step, weights_only=True)
    state: Any = np.random.get_state()
    assert np.array_equal(loaded["rng"]["numpy"][1], state[1])
    assert torch.equal(loaded["optimizer"][0].to_local(), torch.eye(2))
