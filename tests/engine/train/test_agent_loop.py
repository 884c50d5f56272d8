"""Each batch says whether it is of a validation, down to the rows that are scored."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tensordict import TensorDict
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils import tensordict_utils

from engine.recipe.compose import verl_config
from engine.recipe.recipe import load_recipe
from engine.train.agent_loop import SPLIT, RecordingAgentLoopManager
from tests.paths import CONFIGS

CONFIG = CONFIGS / "grpo_tiny.yaml"


@pytest.mark.parametrize(("validate", "split"), [(True, "val"), (False, "train"), (None, "train")])
def test_a_batch_is_handed_over_with_its_split(
    monkeypatch: pytest.MonkeyPatch, validate: bool | None, split: str
) -> None:
    handed_over: list[Any] = []
    monkeypatch.setattr(
        agent_loop_tq.AgentLoopManagerTQ,
        "generate_sequences",
        lambda self, prompts: handed_over.extend(prompts.chunk(2)),
    )
    batch = tensordict_utils.get_tensordict({"uid": ["a", "b", "c", "d"]})
    if validate is not None:
        tensordict_utils.assign_non_tensor_data(batch, "validate", validate)
    manager = RecordingAgentLoopManager.__new__(RecordingAgentLoopManager)
    manager.generate_sequences(batch)
    assert len(handed_over) == 2
    assert all(isinstance(part, TensorDict) and part[SPLIT] == split for part in handed_over)


def test_a_launch_has_this_manager() -> None:
    config = verl_config(load_recipe(str(CONFIG), (), {}), Path("attempt_1"))
    name = config["actor_rollout_ref"]["rollout"]["agent"]["agent_loop_manager_class"]
    module, _, manager = name.rpartition(".")
    assert getattr(import_module(module), manager) is RecordingAgentLoopManager
