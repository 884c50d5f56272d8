"""Each rollout is told whether it validates, and at which temperature it is sampled."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils import tensordict_utils

from engine.config.compose import (
    LENGTH_SCHEDULE,
    OWN_LOOPS,
    TEMPERATURE_SCHEDULE,
    effective,
    verl_config,
)
from engine.config.load import load_config
from engine.train.agent_loop import LENGTH, SPLIT, TEMPERATURE, RecordingAgentLoopManager
from tests.paths import CONFIGS

CONFIG = CONFIGS / "grpo_tiny.yaml"
FALLING = (
    f"{TEMPERATURE_SCHEDULE}.initial=0.5",
    f"{TEMPERATURE_SCHEDULE}.final=0.1",
    f"{TEMPERATURE_SCHEDULE}.steps=4",
)
SHORTER = (
    f"{LENGTH_SCHEDULE}.initial=64",
    f"{LENGTH_SCHEDULE}.final=30",
    f"{LENGTH_SCHEDULE}.steps=2",
)


def manager_of(*overrides: str) -> RecordingAgentLoopManager:
    config = verl_config(load_config(str(CONFIG), overrides, {}), Path("attempt_1"))
    manager = RecordingAgentLoopManager.__new__(RecordingAgentLoopManager)
    manager.config = OmegaConf.create(config)
    return manager


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts of a batch that go to two workers."""
    parts: list[Any] = []
    monkeypatch.setattr(
        agent_loop_tq.AgentLoopManagerTQ,
        "generate_sequences",
        lambda self, prompts: parts.extend(prompts.chunk(2)),
    )
    return parts


def batch_of(step: int, validate: bool | None = None) -> TensorDict:
    batch: TensorDict = tensordict_utils.get_tensordict({"uid": ["a", "b", "c", "d"]})
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", step)
    if validate is not None:
        tensordict_utils.assign_non_tensor_data(batch, "validate", validate)
    return batch


@pytest.mark.parametrize(("validate", "split"), [(True, "val"), (False, "train"), (None, "train")])
def test_a_batch_is_handed_over_with_its_split(
    handed_over: list[Any], validate: bool | None, split: str
) -> None:
    manager_of().generate_sequences(batch_of(1, validate))
    assert len(handed_over) == 2
    assert all(isinstance(part, TensorDict) and part[SPLIT] == split for part in handed_over)


def test_a_schedule_gives_its_temperature_to_the_rollouts_and_to_the_trainer(
    handed_over: list[Any],
) -> None:
    manager = manager_of(*FALLING)
    for step in (1, 2, 9):
        manager.generate_sequences(batch_of(step))
        assert manager.config.actor_rollout_ref.rollout.temperature == handed_over[-1][TEMPERATURE]
    assert [part[TEMPERATURE] for part in handed_over[::2]] == pytest.approx([0.4, 0.3, 0.1])


def test_a_schedule_gives_its_length_to_the_rollouts(handed_over: list[Any]) -> None:
    manager = manager_of(*SHORTER)
    for step in (1, 2, 9):
        manager.generate_sequences(batch_of(step))
    assert [part[LENGTH] for part in handed_over[::2]] == [47, 30, 30]


@pytest.mark.parametrize(("overrides", "validate"), [((*FALLING, *SHORTER), True), ((), False)])
def test_validation_and_a_config_without_a_schedule_keep_their_values(
    handed_over: list[Any], overrides: tuple[str, ...], validate: bool
) -> None:
    manager = manager_of(*overrides)
    manager.generate_sequences(batch_of(2, validate))
    assert all(not {TEMPERATURE, LENGTH} & set(part.keys()) for part in handed_over)
    assert manager.config.actor_rollout_ref.rollout.temperature == 1.0


def test_a_launch_has_this_manager() -> None:
    config = verl_config(load_config(str(CONFIG), (), {}), Path("attempt_1"))
    name = config["actor_rollout_ref"]["rollout"]["agent"]["agent_loop_manager_class"]
    module, _, manager = name.rpartition(".")
    assert getattr(import_module(module), manager) is RecordingAgentLoopManager


class ReachedError(Exception):
    """verl's loop was reached, with these sampling parameters."""


@pytest.fixture(params=["single_turn_agent", "tool_agent"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The agent loop of that name in a launch, without verl's own part."""

    async def run(self: Any, sampling_params: dict[str, Any], *_: Any, **__: Any) -> None:
        raise ReachedError(sampling_params)

    for base in (SingleTurnAgentLoop, ToolAgentLoop):
        monkeypatch.setattr(base, "run", run)
    path = effective(load_config(str(CONFIG), (), {}), Path("attempt_1")).get(OWN_LOOPS)
    entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    targets = {entry["name"]: entry["_target_"] for entry in entries}
    module, _, name = targets[request.param].rpartition(".")
    kind = getattr(import_module(module), name)
    return kind.__new__(kind)


@pytest.mark.parametrize(("row", "temperature"), [({TEMPERATURE: 0.4}, 0.4), ({}, 1.0)])
def test_a_loop_samples_at_the_temperature_of_its_row(
    loop: Any, row: dict[str, Any], temperature: float
) -> None:
    shared = {"temperature": 1.0, "top_p": 0.9}
    with pytest.raises(ReachedError) as caught:
        asyncio.run(loop.run(shared, **row))
    assert caught.value.args[0] == {"temperature": temperature, "top_p": 0.9}
    assert shared["temperature"] == 1.0  # of the other rollouts of the prompt


def test_a_loop_bounds_the_response_by_the_length_of_its_row(loop: Any) -> None:
    with pytest.raises(ReachedError) as caught:
        asyncio.run(loop.run({"temperature": 1.0}, **{LENGTH: 12}))
    # A conversation has the length for all its turns together.
    assert 12 in (caught.value.args[0].get("max_tokens"), getattr(loop, "response_length", None))


def test_a_greedy_rollout_stays_greedy(loop: Any) -> None:
    with pytest.raises(ReachedError) as caught:
        asyncio.run(loop.run({"temperature": 0}, **{TEMPERATURE: 0.4}))
    assert caught.value.args[0]["temperature"] == 0
