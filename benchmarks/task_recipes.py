"""Does GRPO improve a task? SFT, then GRPO, then an evaluation on held-out rows, for several seeds.

    python benchmarks/task_recipes.py [TASK ...] [--seeds 0 1 2] [--out DIR]

Everything runs on the CPU, with a model of 0.4 million random weights whose tokenizer is made for
the task, through the commands that a user has. ``before`` (after SFT) and ``after`` are mean scores
of four answers to each held-out row, and the difference is paired by row. What has finished is kept
in the folder and not trained again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tiny_project import TinyProject

from engine.base.parquet import pq
from engine.tasks.registry import find_task

Record = dict[str, Any]
Messages = list[dict[str, str]]

SAMPLES = 4
"""Answers to each held-out row, at the temperature of training."""

COLORS = ("red", "blue", "green", "black", "white", "yellow", "brown", "grey", "pink", "gold")
THINGS = (
    *("lamp", "chair", "table", "shelf", "mirror", "carpet"),
    *("pillow", "basket", "candle", "clock", "vase", "bench"),
)
TOOLS = '''\
from verl.tools.function_tool import function_tool


@function_tool
def price(item: str) -> str:
    """Look up a price.

    Args:
        item: Name of the item.
    """
    color, thing = item.split()
    return f"{{len(color) * 7 + sum(map(ord, thing)) % 60 + 11}} coins"
'''.replace("{{", "{").replace("}}", "}")


@dataclass(frozen=True)
class TaskRecipe:
    """A task small enough for the tiny model.

    ``records`` are those of ``prepare``. ``demonstrate`` writes a conversation for SFT from a
    prepared prompt, its ground truth and the extra values of its row.
    """

    task: str
    records: Callable[[random.Random], Iterator[Record]]
    demonstrate: Callable[[Messages, str, Mapping[str, Any]], Messages]
    sft_steps: int
    grpo_steps: int
    response: int
    sft_rows: int = 10_000
    rate: float = 1e-3
    files: Mapping[str, str] = field(default_factory=dict)
    rollout: Mapping[str, Any] = field(default_factory=dict)


def answer_of(task: str) -> Callable[[Messages, str, Mapping[str, Any]], Messages]:
    """A demonstration of one turn: the right answer of the task."""

    def demonstrate(prompt: Messages, truth: str, extra: Mapping[str, Any]) -> Messages:
        answer = find_task(task).right_answer(truth, extra)
        return [*prompt, {"role": "assistant", "content": answer}]

    return demonstrate


def shop_records(numbers: random.Random) -> Iterator[Record]:
    items = [f"{color} {thing}" for color, thing in itertools.product(COLORS, THINGS)]
    numbers.shuffle(items)
    for item in items:
        color, thing = item.split()
        price = len(color) * 7 + sum(map(ord, thing)) % 60 + 11
        yield {"question": f"What does a {item} cost?", "answer": price, "item": item}


def shop_turns(prompt: Messages, truth: str, extra: Mapping[str, Any]) -> Messages:
    """A call of the tool, its reply, and the answer."""
    item = prompt[-1]["content"].removeprefix("What does a ").partition(" cost")[0]
    call = json.dumps({"name": "price", "arguments": {"item": item}})
    declared = {
        "name": "price",
        "description": "Look up a price.",
        "parameters": {
            "type": "object",
            "properties": {"item": {"type": "string", "description": "Name of the item."}},
            "required": ["item"],
        },
    }
    listed = (
        f"Tools:\n{json.dumps(declared)}\n"
        'Call one by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.'
    )
    return [
        {"role": "system", "content": listed},
        *prompt,
        {"role": "assistant", "content": f"<tool_call>{call}</tool_call>"},
        {"role": "tool", "content": f"{truth} coins"},
        {"role": "assistant", "content": f"\\boxed{{{truth}}}"},
    ]


def larger_records(numbers: random.Random) -> Iterator[Record]:
    pairs = [(a, b) for a, b in itertools.permutations(range(10, 100), 2)]
    for a, b in numbers.sample(pairs, 1200):
        yield {"question": f"Which is larger, {a} or {b}?", "answer": max(a, b)}


RECIPES = {
    "tools": TaskRecipe(
        "questions",
        shop_records,
        shop_turns,
        sft_steps=400,
        grpo_steps=80,
        response=64,
        rate=3e-4,
        files={"tools.py": TOOLS},
        rollout={
            "agent": {"default_agent_loop": "tool_agent"},
            "multi_turn": {"function_tool_path": "tools.py", "max_assistant_turns": 3},
        },
    ),
    "maths": TaskRecipe(
        "questions",
        larger_records,
        answer_of("questions"),
        sft_steps=100,
        grpo_steps=60,
        response=16,
    ),
}


@dataclass(frozen=True)
class Result:
    """Means of held-out rows; ``interval`` is that of the paired difference, at 95 %."""

    before: float
    after: float
    interval: tuple[float, float]
    rows: int
    turns: float | None
    sft_s: float
    grpo_s: float


def run_recipe(name: str, recipe: TaskRecipe, seed: int, folder: Path) -> Result:
    project = TinyProject(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "configs" / "grpo.yaml").is_file():
        prepare(recipe, seed, project)
    started = time.monotonic()
    project.train("sft", "sft")
    trained = time.monotonic()
    project.train("grpo", "grpo")
    ended = time.monotonic()
    measured = project.call("evaluate", "grpo", "--baseline", "sft", "--samples", str(SAMPLES))
    rewards = [result for result in measured["results"] if result["metric"] == "reward"]
    before = next(result for result in rewards if result["target"] == "sft")
    after = next(result for result in rewards if result["target"] != "sft")
    difference = next(c for c in measured["comparisons"] if c["metric"] == "reward")
    turns = project.call("metrics", "grpo", "tools/turns") if "tools" in name else None
    return Result(
        before["mean"],
        after["mean"],
        tuple(difference["ci"]),
        after["n"],
        last_value(turns),
        trained - started,
        ended - trained,
    )


def last_value(metrics: Any) -> float | None:
    series = metrics and next(iter(metrics["series"].values()), None)
    return series[-1][1] if series else None


def prepare(recipe: TaskRecipe, seed: int, project: TinyProject) -> None:
    """Write data, model and configs."""
    folder = project.path
    for file, text in recipe.files.items():
        (folder / file).write_text(text)
    records = folder / "records.jsonl"
    records.write_text("".join(json.dumps(r) + "\n" for r in recipe.records(random.Random(seed))))
    options = ("--task", recipe.task, "--val-share", "0.3", "--seed", str(seed))
    project.call("prepare", str(records), *options)
    rows = pq.read_table(folder / "data" / "records" / "train.parquet").to_pylist()
    conversations = [
        recipe.demonstrate(
            [dict(message) for message in row["prompt"]],
            row["reward_model"]["ground_truth"],
            row["extra_info"],
        )
        for row in rows[: recipe.sft_rows]
    ]
    lines = [json.dumps({"messages": messages}) + "\n" for messages in conversations]
    (folder / "sft.jsonl").write_text("".join(lines))
    project.python(
        "-m", "engine.train.tiny_model", "--texts", "sft.jsonl", "--out", "model",
        "--seed", str(seed),
    )  # fmt: skip
    write_configs(recipe, seed, folder)


def write_configs(recipe: TaskRecipe, seed: int, folder: Path) -> None:
    sft = {
        "grubrics": {"kind": "sft", "device": "cpu"},
        "model": {"path": "model"},
        "lora": {"r": 0},
        "data": {"train_file": "sft.jsonl", "max_seq_length": 400},
        "training": {
            "output_dir": "checkpoints/sft", "max_steps": recipe.sft_steps,
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
            "learning_rate": 3e-3, "warmup_ratio": 0.1, "bf16": False, "save_steps": -1,
            "seed": seed,
        },
        "logging": {"project": "tasks", "run_name": "sft"},
    }  # fmt: skip
    grpo = {
        "grubrics": {"kind": "grpo", "device": "cpu", "seed": seed},
        "reward": {"custom_reward_function": {"path": f"task://{recipe.task}"}},
        "data": {
            "train_files": "data/records/train.parquet", "val_files": "data/records/val.parquet",
            "train_batch_size": 8, "seed": seed, "max_prompt_length": 400,
            "max_response_length": recipe.response,
        },
        "actor_rollout_ref": {
            "model": {"path": "checkpoints/sft/final"},
            "actor": {
                "ppo_mini_batch_size": 8, "ppo_micro_batch_size_per_gpu": 32,
                "optim": {"lr": recipe.rate}, "use_kl_loss": False,
            },
            "rollout": {
                "name": "hf", "tensor_model_parallel_size": 1, "n": 8,
                "log_prob_micro_batch_size_per_gpu": 64, **recipe.rollout,
            },
            "ref": {"log_prob_micro_batch_size_per_gpu": 64},
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {
            "total_epochs": 1000, "total_training_steps": recipe.grpo_steps,
            "n_gpus_per_node": 1, "project_name": "tasks", "experiment_name": "grpo",
            "default_local_dir": "checkpoints/grpo", "val_before_train": False, "test_freq": -1,
            "save_freq": recipe.grpo_steps, "logger": ["console"],
        },
    }  # fmt: skip
    (folder / "configs").mkdir(exist_ok=True)
    for name, config in (("sft", sft), ("grpo", grpo)):
        (folder / "configs" / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[*RECIPES], metavar="TASK")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("task-recipes"))
    args = parser.parse_args(arguments)
    print("task    seed  before  after  difference         rows  turns  SFT s  GRPO s")
    for name in args.tasks:
        for seed in args.seeds:
            result = run_recipe(name, RECIPES[name], seed, args.out.resolve() / f"{name}-{seed}")
            low, high = result.interval
            turns = "" if result.turns is None else f"{result.turns:.2f}"
            print(
                f"{name:<7} {seed:>4}  {result.before:6.3f}  {result.after:5.3f}  "
                f"[{low:+.3f}, {high:+.3f}]  {result.rows:>4}  {turns:>5}  {result.sft_s:5.0f}  "
                f"{result.grpo_s:6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
