"""What a GRPO run executes, on a CPU as tasks of Ray: the training, and the writing of its model.

A module of its own, because Ray copies functions of a program into the task that executes them. The
model goes to ``final/`` beside the checkpoints when the last step is saved. It has the data type of
the rollouts: it is the model that generated them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.run.checkpoints.model_folder import DTYPES, require_space, weights_bytes
from engine.run.checkpoints.step_folders import tracked_step


def write_final_model(config: Mapping[str, Any], reached: int | None) -> str:
    """Write the model. Return one line: its path, or why it was not written.

    A missing model does not fail the run. ``config`` is verl's; ``reached`` is the last logged
    step, None if no step was. The caller prints the line: Ray drops what a worker prints shortly
    before the shutdown.
    """
    if config["trainer"]["val_only"]:
        return "no final model: trainer.val_only=true"
    if not config["grubrics"]["final_model"]:
        return "no final model: grubrics.final_model=false"
    folder = Path(config["trainer"]["default_local_dir"])
    final = folder / "final"
    try:
        return f"final model: {_write(config, folder, reached)}"
    except (UsageError, OSError) as error:
        return f"no final model in {final}: {error}"


def _write(config: Mapping[str, Any], folder: Path, reached: int | None) -> Path:
    from engine.train.final_checkpoint import export

    saved = tracked_step(folder)
    if config["trainer"]["save_freq"] <= 0 or saved is None:
        raise UsageError("no checkpoint was saved; set trainer.save_freq")
    if reached is not None and saved != reached:
        raise UsageError(f"the last checkpoint is that of step {saved}, not of step {reached}")
    checkpoint, final = folder / f"global_step_{saved}", folder / "final"
    require_space(final, weights_bytes(checkpoint / "actor"))
    wanted = str(config["actor_rollout_ref"]["rollout"]["dtype"])
    return export(checkpoint, final, wanted if wanted in DTYPES else "float32")


def train(config: dict[str, Any]) -> None:
    """Check the configuration and train to the end. Ray must be initialized."""
    from omegaconf import OmegaConf
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    tree = OmegaConf.create(config)
    validate_config(
        config=tree, use_reference_policy=need_reference_policy(tree), use_critic=need_critic(tree)
    )
    run_ppo(tree, task_runner_class=TaskRunnerV1)
