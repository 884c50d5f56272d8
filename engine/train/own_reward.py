"""The reward function of a recipe in a reward worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from engine.own_reward.function import RewardFunction
from engine.own_reward.processes import RewardProcesses, source_of
from engine.runs.rundir import ATTEMPT_DIR_VARIABLE, RunDir


def reward_processes(config: Any) -> RewardProcesses | None:
    """Processes of the function that ``config`` names; None where it names none.

    They execute the copies that the run keeps. UsageError when the function cannot be loaded.
    """
    section = OmegaConf.to_container(config.reward.custom_reward_function, resolve=True)
    function = RewardFunction.of_section(section)  # type: ignore[arg-type]
    if function is None:
        return None
    attempt = os.environ.get(ATTEMPT_DIR_VARIABLE)
    copies = RunDir(Path(attempt).parent).code if attempt else None
    return RewardProcesses(source_of(function, copies), float(config.grubrics.reward_timeout_s))
