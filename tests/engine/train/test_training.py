"""verl really trains here: GRPO with and without LoRA, SFT on one rank and on two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine import jsonl
from engine.train.final_checkpoint import export, merged_state
from tests.engine.train.conftest import SmallWorld

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
DIGITS = """
def compute_score(solution_str, extra_info, **_):
    if extra_info["index"] in FAILING:
        raise ValueError("no backend")
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""


def command(
    world: SmallWorld,
    folder: Path,
    *overrides: str,
    failing: str = "()",
    recipe: str = "grpo_tiny",
) -> list[str]:
    """A GRPO run of two steps with a reward that raises for the rows ``failing``."""
    (folder / "reward.py").write_text(DIGITS.replace("FAILING", failing))
    settings = [
        f"actor_rollout_ref.model.path={world.model}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.n=4",
        f"data.train_files={world.train}",
        f"data.val_files={world.val}",
        "data.train_batch_size=2",
        "data.max_prompt_length=64",
        "data.max_response_length=16",
        f"reward.custom_reward_function.path={folder / 'reward.py'}",
        "trainer.total_training_steps=2",
        "trainer.test_freq=-1",
        "trainer.save_freq=2",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ]
    path = ROOT / "configs" / f"{recipe}.yaml"
    start = [sys.executable, "-m", "engine.train.grpo", "--config", str(path)]
    return [*start, *settings, *overrides]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, "GRUBRICS_ATTEMPT_DIR": str(folder / "attempt_1")},
        capture_output=True,
        text=True,
        timeout=540,
    )


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = jsonl.read(folder / "attempt_1" / "metrics.jsonl")
    return [line["data"] for line in lines if "actor/loss" in line["data"]]


# The debug recipe is for one GPU; on a CPU it must reach its end too. Its bf16 and its top_p give
# the rollout other probabilities than the trainer by design.
ON_CPU = [
    "grubrics.device=cpu",
    "judge.provider=offline",
    "actor_rollout_ref.rollout.dtype=float32",
    "actor_rollout_ref.rollout.top_p=1.0",
]
MERGED = ["actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora.merge=true"]


@pytest.mark.parametrize(
    ("recipe", "overrides"),
    [("grpo_tiny", []), ("verl_grpo_debug", ON_CPU), ("grpo_tiny", MERGED)],
    ids=["full", "adapter", "merged"],
)
def test_grpo_trains_and_its_checkpoint_becomes_a_model(
    world: SmallWorld, tmp_path: Path, recipe: str, overrides: list[str]
) -> None:
    settings = ["trainer.val_before_train=false", *overrides]
    done = run(command(world, tmp_path, *settings, recipe=recipe), tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    steps = metrics(tmp_path)
    # The rollout's weights follow the trainer's: both give a token the same probability.
    assert all(step["training/rollout_probs_diff_max"] < 1e-4 for step in steps)
    assert all(step["actor/grad_norm"] > 0 for step in steps)
    final = export(tmp_path / "checkpoints" / "global_step_2", tmp_path / "final")
    trained = AutoModelForCausalLM.from_pretrained(final).state_dict()
    before = AutoModelForCausalLM.from_pretrained(world.model).state_dict()
    assert any(not torch.equal(trained[name], before[name]) for name in before)


def test_a_failed_reward_is_left_out_and_counted(world: SmallWorld, tmp_path: Path) -> None:
    arguments = command(
        world,
        tmp_path,
        "trainer.save_freq=-1",
        "grubrics.max_failed_share=1",
        failing="range(0, 11, 2)",
    )
    done = run([*arguments, "trainer.val_before_train=false"], tmp_path)
    lines = [
        json.loads(x) for x in (tmp_path / "attempt_1" / "reward.jsonl").read_text().splitlines()
    ]
    failed = [line for line in lines if line["reward"] is None]
    assert failed
    assert all(line["error"]["message"] == "ValueError: no backend" for line in failed)
    for number, step in enumerate(metrics(tmp_path), start=1):
        mine = [line for line in lines if line["step"] == number]
        share = sum(line["reward"] is None for line in mine) / len(mine)
        assert step["reward/failed_share"] == pytest.approx(share)
    # Whether a whole step failed depends on which rows were drawn together.
    assert done.returncode == 0 or "TooFewRewardsError" in done.stdout + done.stderr


def test_too_many_failed_rewards_stop_the_run(world: SmallWorld, tmp_path: Path) -> None:
    arguments = command(world, tmp_path, "trainer.val_before_train=false", failing="range(99)")
    done = run(arguments, tmp_path)
    assert done.returncode == 1
    assert "step 1: 8 of 8 rollouts got no reward" in done.stdout + done.stderr


def test_a_signal_ends_everything_and_shows_in_the_exit_code(
    world: SmallWorld, tmp_path: Path
) -> None:
    import psutil

    arguments = command(world, tmp_path, "trainer.total_training_steps=5000")
    environment = {
        **os.environ,
        "GRUBRICS_ATTEMPT_DIR": str(tmp_path / "attempt_1"),
        "GRUBRICS_RUN_ID": tmp_path.name,
    }
    with (tmp_path / "out").open("wb") as out:
        driver = subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    deadline = time.monotonic() + 400
    while not metrics(tmp_path) and driver.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    started = psutil.Process(driver.pid).children(recursive=True)
    assert len(started) > 10
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(120) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(started, timeout=60)
    assert alive == []


@pytest.mark.parametrize("shape", ["full", "lora", "two-ranks"])
def test_sft_ends_with_a_loadable_folder(world: SmallWorld, tmp_path: Path, shape: str) -> None:
    extra = {
        "full": [],
        "lora": ["lora.r=4", "lora.alpha=8"],
        "two-ranks": ["training.n_gpus=2", "training.per_device_train_batch_size=4"],
    }[shape]
    settings = [
        f"model.path={world.model}",
        f"data.train_file={world.conversations}",
        f"training.output_dir={tmp_path / 'out'}",
        "training.max_steps=3",
        "training.learning_rate=0.01",
    ]
    recipe = ROOT / "configs" / "sft_tiny.yaml"
    start = [sys.executable, "-m", "engine.train.sft", "--config", str(recipe)]
    done = run([*start, *settings, *extra], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    final = tmp_path / "out" / "final"
    assert done.stdout.splitlines()[-1] == f"final model: {final}"
    model = AutoModelForCausalLM.from_pretrained(final)
    assert model.dtype == torch.float32
    assert AutoTokenizer.from_pretrained(final).chat_template
    name = "model.layers.0.self_attn.q_proj.weight"
    expected = trained_weight(tmp_path / "out" / "global_step_3", name)
    torch.testing.assert_close(model.state_dict()[name], expected)


def trained_weight(checkpoint: Path, name: str) -> torch.Tensor:
    """What verl saved for one weight, LoRA added by hand: W + (alpha / r) B A."""
    state = merged_state(checkpoint)
    if name in state:
        return state[name]
    stem = f"base_model.model.{name.removesuffix('.weight')}"
    a, b = (state[f"{stem}.lora_{side}.default.weight"] for side in "AB")
    return state[f"{stem}.base_layer.weight"] + 8 / 4 * b @ a
