"""Mark rollouts of a validation.

``actor_rollout_ref.rollout.agent.agent_loop_manager_class`` is verl's hook for another manager.
verl knows of each batch whether it validates, but does not pass it on to the reward manager. The
split in the data (``extra_info.split``) is missing in many data sets, and wrong in some.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils.tensordict_utils import assign_non_tensor_data

SPLIT = "rollout_split"
"""The column of a rollout that says ``val`` or ``train``."""


class RecordingAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager, which adds the split to each batch."""

    def generate_sequences(self, prompts: Any) -> None:
        validates = "validate" in prompts and bool(prompts["validate"])
        assign_non_tensor_data(prompts, SPLIT, "val" if validates else "train")
        super().generate_sequences(prompts)
