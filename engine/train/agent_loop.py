"""Tell each rollout whether it validates, and the temperature and length of its step.

``actor_rollout_ref.rollout.agent.agent_loop_manager_class`` is verl's hook for another manager.
verl knows of each batch whether it validates, but does not pass it on to the reward manager. The
split in the data (``extra_info.split``) is missing in many data sets, and wrong in some.

verl samples every step at one temperature, ``rollout.temperature``: its agent loop workers have a
copy of the config, and its trainer reads its own in every step, for log probabilities and updates.
With ``grubrics.temperature_schedule``, the manager gives the temperature of the step to both. The
length of ``grubrics.response_length_schedule`` concerns the rollouts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils.tensordict_utils import assign_non_tensor_data

from engine.config import schedule

SPLIT = "rollout_split"
"""The column of a rollout that says ``val`` or ``train``."""
TEMPERATURE = "rollout_temperature"
"""The column of a training rollout with its temperature, where the config has a schedule."""
LENGTH = "rollout_max_tokens"
"""The same for the tokens of its longest response."""


class RecordingAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager, which adds the split to each batch, and the values of schedules.

    It lives in the process of the trainer, and both have the same config object: a temperature
    that is set here, before the step generates, is that of the whole step.
    """

    def generate_sequences(self, prompts: Any) -> None:
        validates = "validate" in prompts and bool(prompts["validate"])
        assign_non_tensor_data(prompts, SPLIT, "val" if validates else "train")
        if not validates:
            self._schedule(prompts)
        super().generate_sequences(prompts)

    def _schedule(self, prompts: Any) -> None:
        for planned in schedule.schedules(partial(OmegaConf.select, self.config)):
            value = planned.at(int(prompts["global_steps"]))
            if planned.of == schedule.TEMPERATURE:
                assign_non_tensor_data(prompts, TEMPERATURE, value)
                self.config.actor_rollout_ref.rollout.temperature = value
            else:
                assign_non_tensor_data(prompts, LENGTH, int(value))


def with_temperature(sampling: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling parameters of a rollout: with the temperature of its row, if it has one.

    A greedy rollout, ReMax's baseline, stays greedy. verl gives all rollouts of a prompt the same
    dict, so that one is not changed.
    """
    if TEMPERATURE not in row or not sampling.get("temperature", 1.0):
        return sampling
    return {**sampling, "temperature": row[TEMPERATURE]}


class SingleTurnLoop(SingleTurnAgentLoop):
    """verl's loop of a single turn, which follows schedules."""

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any
    ) -> AgentLoopOutput:
        sampling = with_temperature(sampling_params, kwargs)
        if LENGTH in kwargs:
            sampling = {**sampling, "max_tokens": kwargs[LENGTH]}
        output: AgentLoopOutput = await super().run(sampling, priority, **kwargs)
        return output
