"""Does GRPO improve a task? SFT, then GRPO, then an evaluation on held-out rows, for several seeds.

    python benchmarks/task_configs.py [CONFIG ...] [--seeds 0 1 2] [--out DIR]

Everything runs on the CPU, with a model of 0.4 million random weights whose tokenizer is made for
the task, through the commands that a user has. ``rubric`` is the tiny demo, and the others are
those of small_tasks.py; ``puzzles`` needs the extra of that name.

``before`` (after SFT) and ``after`` are mean scores of four answers to each held-out row at the
temperature of training. The interval is that of their difference, paired by row, at 95 %. Seconds
are those of data, SFT, GRPO and evaluation together; CPU seconds count every process. What has
finished is kept in the folder and not trained again. Exits with 1 if an interval is not above 0.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from cpu_time import CpuTime
from small_tasks import SMALL_TASKS, SmallTask
from tiny_project import REPOSITORY, TinyProject

from engine.base.parquet import pq

SAMPLES = 4
"""Answers to each held-out row."""

Prepare = Callable[[TinyProject, int], None]
"""Writes data, model, configs/sft.yaml and configs/grpo.yaml for a seed."""


@dataclass(frozen=True)
class Result:
    """Mean scores of ``answers`` to held-out rows, and what they cost. ``turns`` are those of a
    rollout in the last step, where there are several."""

    before: float
    after: float
    interval: tuple[float, float]
    answers: int
    turns: float | None
    wall_s: float
    cpu_s: float


def run_config(prepare: Prepare, seed: int, project: TinyProject) -> Result:
    """Do what is not done yet, and read the result."""
    project.path.mkdir(parents=True, exist_ok=True)
    options = ("--baseline", "sft", "--samples", str(SAMPLES))
    steps: Mapping[str, Callable[[], object]] = {
        "data": lambda: prepare(project, seed),
        "sft": lambda: project.train("sft", "sft"),
        "grpo": lambda: project.train("grpo", "grpo"),
        "evaluation": lambda: project.call("evaluate", "grpo", *options),
    }
    costs = [measure(project.path / f"{name}.cost.json", step) for name, step in steps.items()]
    measured = project.call("evaluate", "grpo", *options)  # reads what there is
    wall_s, cpu_s = map(sum, zip(*costs, strict=True))
    return read_result(measured, read_turns(project), wall_s, cpu_s)


def measure(kept: Path, step: Callable[[], object]) -> tuple[float, float]:
    """Seconds and CPU seconds of a step, which ``kept`` records. A step with a record is done."""
    if not kept.is_file():
        started = time.monotonic()
        with CpuTime() as cpu:
            step()
        kept.write_text(json.dumps([time.monotonic() - started, cpu.seconds]))
    wall_s, cpu_s = json.loads(kept.read_text())
    return wall_s, cpu_s


def read_result(
    measured: Mapping[str, Any], turns: float | None, wall_s: float, cpu_s: float
) -> Result:
    rewards = [result for result in measured["results"] if result["metric"] == "reward"]
    before = next(result for result in rewards if result["target"] == "sft")
    after = next(result for result in rewards if result["target"] != "sft")
    low, high = next(c["ci"] for c in measured["comparisons"] if c["metric"] == "reward")
    return Result(before["mean"], after["mean"], (low, high), after["n"], turns, wall_s, cpu_s)


def read_turns(project: TinyProject) -> float | None:
    config = yaml.safe_load((project.path / "configs" / "grpo.yaml").read_text())
    if "multi_turn" not in config["actor_rollout_ref"]["rollout"]:
        return None
    series = project.call("metrics", "grpo", "tools/turns")["series"]
    return float(next(iter(series.values()))[-1][1])


def prepare_rubric(project: TinyProject, seed: int) -> None:
    """The tiny demo of a seed, with 40 steps of GRPO."""
    project.python("-m", "engine.data.tiny_world", "--seed", str(seed))
    read = {
        name: yaml.safe_load((REPOSITORY / "configs" / f"{name}_tiny.yaml").read_text())
        for name in ("sft", "grpo")
    }
    read["sft"]["training"].update(seed=seed, output_dir="checkpoints/sft")
    grpo = read["grpo"]
    grpo["grubrics"]["seed"] = grpo["data"]["seed"] = seed
    grpo["actor_rollout_ref"]["model"]["path"] = "checkpoints/sft/final"
    grpo["trainer"].update(
        total_training_steps=40, save_freq=40, test_freq=-1, val_before_train=False
    )
    write_configs(project.path, read)


def prepare_task(small: SmallTask, project: TinyProject, seed: int) -> None:
    """Rows by ``prepare``, demonstrations for those to train on, and a model for their text."""
    folder = project.path
    for file, text in small.files.items():
        (folder / file).write_text(text)
    if small.records is not None:
        records = small.records(random.Random(seed))
        (folder / small.source).write_text("".join(json.dumps(r) + "\n" for r in records))
    options = ("--task", small.task, "--val-share", str(small.held_out), "--seed", str(seed))
    project.call("prepare", small.source, *options, "--out", "data/rows")
    rows = pq.read_table(folder / "data" / "rows" / "train.parquet").to_pylist()
    conversations = [
        small.demonstrate(
            [dict(message) for message in row["prompt"]],
            row["reward_model"]["ground_truth"],
            row["extra_info"],
        )
        for row in rows
    ]
    lines = [json.dumps({"messages": messages}) + "\n" for messages in conversations]
    (folder / "sft.jsonl").write_text("".join(lines))
    project.python(
        "-m", "engine.train.tiny_model", "--texts", "sft.jsonl", "--out", "model",
        "--seed", str(seed),
    )  # fmt: skip
    write_configs(folder, {"sft": sft_config(small, seed), "grpo": grpo_config(small, seed)})


def sft_config(small: SmallTask, seed: int) -> dict[str, Any]:
    return {
        "grubrics": {"kind": "sft", "device": "cpu"},
        "model": {"path": "model"},
        "lora": {"r": 0},
        "data": {"train_file": "sft.jsonl", "max_seq_length": 400},
        "training": {
            "output_dir": "checkpoints/sft", "max_steps": small.sft_steps,
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
            "learning_rate": 3e-3, "warmup_ratio": 0.1, "bf16": False, "save_steps": -1,
            "seed": seed,
        },
        "logging": {"project": "tasks", "run_name": "sft"},
    }  # fmt: skip


def grpo_config(small: SmallTask, seed: int) -> dict[str, Any]:
    return {
        "grubrics": {"kind": "grpo", "device": "cpu", "seed": seed},
        "reward": {"custom_reward_function": {"path": f"task://{small.task}"}},
        "data": {
            "train_files": "data/rows/train.parquet", "val_files": "data/rows/val.parquet",
            "train_batch_size": 8, "seed": seed, "max_prompt_length": 400,
            "max_response_length": small.response,
        },
        "actor_rollout_ref": {
            "model": {"path": "checkpoints/sft/final"},
            "actor": {
                "ppo_mini_batch_size": 8, "ppo_micro_batch_size_per_gpu": 32,
                "optim": {"lr": small.rate}, "use_kl_loss": False,
            },
            "rollout": {
                "name": "hf", "tensor_model_parallel_size": 1, "n": 8,
                "log_prob_micro_batch_size_per_gpu": 64, **small.rollout,
            },
            "ref": {"log_prob_micro_batch_size_per_gpu": 64},
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {
            "total_epochs": 1000, "total_training_steps": small.grpo_steps,
            "n_gpus_per_node": 1, "project_name": "tasks", "experiment_name": "grpo",
            "default_local_dir": "checkpoints/grpo", "val_before_train": False, "test_freq": -1,
            "save_freq": small.grpo_steps, "logger": ["console"],
        },
    }  # fmt: skip


def write_configs(folder: Path, configs: Mapping[str, Any]) -> None:
    (folder / "configs").mkdir(exist_ok=True)
    for name, config in configs.items():
        (folder / "configs" / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


CONFIGS: Mapping[str, Prepare] = {
    "rubric": prepare_rubric,
    **{name: partial(prepare_task, small) for name, small in SMALL_TASKS.items()},
}


def row_of(name: str, seed: int, result: Result) -> str:
    low, high = result.interval
    turns = "-" if result.turns is None else f"{result.turns:.2f}"
    return (
        f"| {name} | {seed} | {result.before:.3f} | {result.after:.3f} | {low:+.3f} to {high:+.3f} "
        f"| {result.answers} | {turns} | {result.wall_s:.0f} | {result.cpu_s:.0f} |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="*", default=[*CONFIGS], metavar="CONFIG")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("task-configs"))
    args = parser.parse_args(arguments)
    print("| config | seed | before | after | difference | answers | turns | wall s | CPU s |")
    print("|---" * 9 + "|")
    have_improved = True
    for name in args.configs:
        for seed in args.seeds:
            folder = args.out.resolve() / f"{name}-{seed}"
            result = run_config(CONFIGS[name], seed, TinyProject(folder))
            print(row_of(name, seed, result), flush=True)
            have_improved &= result.interval[0] > 0
    return 0 if have_improved else 1


if __name__ == "__main__":
    sys.exit(main())
