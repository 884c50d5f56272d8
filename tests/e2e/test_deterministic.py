"""Two deterministic runs of one config have the same metrics and the same weights, bit by bit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.run.run import Run
from tests.e2e.project import Project

pytestmark = pytest.mark.slow

DIGITS = """
def compute_score(solution_str, **_):
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""
MEASURED = ("timing", "perf/", "_s", "mfu")
"""What marks a metric that depends on the clock or the memory of the machine."""
SFT = ("sft_tiny", "training.max_steps=4", "training.per_device_train_batch_size=2", "lora.r=2")
POLICY = "actor_rollout_ref"
GRPO = (
    "grpo_tiny",
    f"{POLICY}.model.path=data/tiny/model",
    "data.max_response_length=8",
    "reward.custom_reward_function.path=digits.py",
    f"{POLICY}.actor.ppo_mini_batch_size=2",
    f"{POLICY}.actor.shuffle=true",
    f"{POLICY}.actor.ppo_micro_batch_size_per_gpu=4",
    f"{POLICY}.rollout.log_prob_micro_batch_size_per_gpu=4",
    f"{POLICY}.rollout.n=2",
    "trainer.total_training_steps=3",
    "trainer.save_freq=3",
    "trainer.test_freq=3",
    "trainer.val_before_train=false",
)


def trained(project: Project, config: tuple[str, ...], name: str) -> tuple[Run, Path]:
    """A deterministic run, and the folder of its final model."""
    key = "training.output_dir" if config is SFT else "trainer.default_local_dir"
    folder = project.path / "checkpoints" / name
    arguments = (*config, f"{key}={folder}", "--deterministic", "--name", name, "--wait")
    answer = project.json("launch", *arguments, expect=(0, 1))
    assert answer["state"] == "finished", answer
    return Run(project.path / "runs" / name), folder / "final"


def metrics(run: Run) -> list[dict[str, Any]]:
    """What verl logged, except what is measured."""
    return [
        {name: value for name, value in line["data"].items() if not is_measured(name)}
        for line in jsonl.read(run.attempt(1).metrics)
    ]


def is_measured(name: str) -> bool:
    return any(mark in name if mark != "_s" else name.endswith(mark) for mark in MEASURED)


def weights(folder: Path) -> dict[str, str]:
    files = sorted(folder.glob("*.safetensors"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.thorough
@pytest.mark.row("H05", "H06")
@pytest.mark.parametrize(
    "config",
    [pytest.param(SFT, id="sft"), pytest.param(GRPO, id="grpo")],
)
def test_two_runs_are_equal(tiny_world: Project, config: tuple[str, ...]) -> None:
    (tiny_world.path / "digits.py").write_text(DIGITS)
    (one, model), (other, same_model) = (
        trained(tiny_world, config, f"{config[0]}-{number}") for number in (1, 2)
    )
    assert metrics(one) == metrics(other) != []
    assert weights(model) == weights(same_model) != {}
    check_recorded(one, config)


def check_recorded(run: Run, config: tuple[str, ...]) -> None:
    """The manifest has the variables and the flag, and the trainer had them."""
    manifest = run.read_full_manifest()
    variables = manifest.deterministic or {}
    engine = "verl.engine" if config is SFT else f"{POLICY}.actor.fsdp_config"
    assert manifest.value(f"{engine}.full_determinism") is True
    seed = "42" if config is SFT else "1"
    assert variables["PYTHONHASHSEED"] == seed
    assert variables["OMP_NUM_THREADS"] == "1"
