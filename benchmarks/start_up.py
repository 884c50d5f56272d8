"""How quick a tiny GRPO run is: this project's verl on CPU beside TRL's GRPOTrainer.

    python benchmarks/start_up.py --trl-python TRL_VENV/bin/python

Same model, data, reward and sizes (2 prompts x 4 rollouts x 64 tokens, 20 steps, fp32, one thread
per process); the runs follow each other, so they do not compete. TRL wants newer transformers than
verl allows, hence its own environment:

    python3.11 -m venv TRL_VENV && TRL_VENV/bin/pip install torch==2.13.0 trl==1.16.0

Without ``--trl-python`` only our side is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

REWARD = """
def compute_score(solution_str, **_):
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""

TRL_SCRIPT = """
import sys, time
import torch
torch.set_num_threads(1)
from datasets import load_dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

model, data, out, steps = sys.argv[1:5]

def reward(completions, **_):
    texts = [c[0]["content"] for c in completions]
    return [sum(c.isdigit() for c in t) / max(1, len(t)) for t in texts]

class Clock(TrainerCallback):
    def on_step_end(self, *_, **__):
        print(f"STEP {time.time()}", flush=True)

config = GRPOConfig(
    output_dir=out, max_steps=int(steps), per_device_train_batch_size=8, num_generations=4,
    max_completion_length=64, learning_rate=1e-3, logging_steps=1, save_strategy="no",
    use_cpu=True, bf16=False, report_to=[], beta=0.0, gradient_checkpointing=False, seed=1,
)
rows = load_dataset("parquet", data_files=data, split="train").select_columns(["prompt"])
GRPOTrainer(
    model=model, reward_funcs=reward, args=config, train_dataset=rows, callbacks=[Clock()]
).train()
"""


@dataclass(frozen=True)
class Timing:
    """Seconds from launch to the end of step 1, per later step (median), and of the whole run."""

    name: str
    first_step: float
    per_step: float
    total: float


def measure(name: str, command: list[str], marker: str, folder: Path) -> Timing:
    """Run ``command``; a line that contains ``marker`` ends a step."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    started = time.monotonic()
    ends: list[float] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "GRUBRICS_ATTEMPT_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if marker in line:
                ends.append(time.monotonic() - started)
    total = time.monotonic() - started
    if process.returncode != 0 or len(ends) < 2:
        raise SystemExit(f"{name} failed with exit code {process.returncode}")
    gaps = [after - before for before, after in pairwise(ends)]
    return Timing(name, ends[0], statistics.median(gaps), total)


def make_world(folder: Path) -> tuple[Path, Path]:
    """A 2-layer Qwen2 with its tokenizer, and 64 prompts of one length."""
    # verl's wheel installs a package ``tests``, which hides the folder of this name.
    fixtures = runpy.run_path(str(ROOT / "tests/engine/train/conftest.py"))
    make_model, write_rows = fixtures["make_model"], fixtures["write_rows"]

    rows = [(f"What is {x} + {y}?", str(x + y)) for x in range(10, 18) for y in range(10, 18)]
    model = make_model(folder / "model", [text for row in rows for text in row])
    return model, write_rows(folder / "train.parquet", rows, "train")


def our_command(folder: Path, model: Path, data: Path, steps: int) -> list[str]:
    (folder / "reward.py").write_text(REWARD)
    settings = {
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.actor.optim.lr": 1e-3,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.n": 4,
        "data.train_files": data,
        "data.val_files": data,
        "data.train_batch_size": 2,
        "data.max_prompt_length": 64,
        "data.max_response_length": 64,
        "reward.custom_reward_function.path": folder / "reward.py",
        "trainer.total_training_steps": steps,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": -1,
        "trainer.default_local_dir": folder / "checkpoints",
    }
    config = ROOT / "configs" / "grpo_tiny.yaml"
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return [sys.executable, "-m", "engine.train.grpo", "--config", str(config), *overrides]


def trl_command(python: str, folder: Path, model: Path, data: Path, steps: int) -> list[str]:
    (folder / "trl_grpo.py").write_text(TRL_SCRIPT)
    return [
        python,
        str(folder / "trl_grpo.py"),
        str(model),
        str(data),
        str(folder / "trl"),
        str(steps),
    ]


def table(timings: list[Timing]) -> str:
    """Markdown, one column per trainer."""
    rows = [
        ("launch to the end of step 1", [timing.first_step for timing in timings]),
        ("step, median", [timing.per_step for timing in timings]),
        ("whole run", [timing.total for timing in timings]),
    ]
    lines = [
        "| seconds | " + " | ".join(timing.name for timing in timings) + " |",
        "|---|" + "---|" * len(timings),
    ]
    lines += [f"| {name} | " + " | ".join(f"{x:.2f}" for x in xs) + " |" for name, xs in rows]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trl-python", default=os.environ.get("TRL_PYTHON"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, data = make_world(folder)
        timings = [
            measure(
                "verl (this project)",
                our_command(folder, model, data, given.steps),
                " step:",
                folder,
            )
        ]
        if given.trl_python:
            command = trl_command(given.trl_python, folder, model, data, given.steps)
            timings.append(measure("TRL", command, "STEP ", folder))
    print(json.dumps([vars(timing) for timing in timings]) if given.json else table(timings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
