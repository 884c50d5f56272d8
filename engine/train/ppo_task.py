"""verl's own ``main_ppo`` from its configuration check onwards.

A module of its own, because Ray copies functions of a program into the task that executes them.
"""

from __future__ import annotations

from typing import Any


def train(config: dict[str, Any]) -> None:
    """Check the configuration and train to the end. Ray must be initialized."""
    from omegaconf import OmegaConf
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    tree = OmegaConf.create(config)
    validate_config(
        config=tree,
        use_reference_policy=need_reference_policy(tree),
        use_critic=need_critic(tree),
    )
    run_ppo(tree, task_runner_class=TaskRunnerV1)
