"""Training on one NVIDIA GPU: step times, memory beside the estimate, evaluation, kills, faults.

    python benchmarks/gpu.py --out DIR STEP...      # perform steps, in this order
    python benchmarks/gpu.py --out DIR --table      # the tables, from the files in DIR

DIR becomes a project with the tiny demo and a model of Qwen2.5-0.5B's architecture with random
weights; nothing is downloaded. Every step runs the project's own commands in it. Steps can also be
performed beside each other, by calls with the same DIR. Without a GPU, ``--device cpu`` tries the
same steps on the tiny demo's model.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from tiny_project import REPOSITORY, TinyProject, environment

from engine.base import jsonl
from engine.checks.estimate.model_shape import known_configs
from engine.data.contract import read_rows
from engine.run.host.system import gpu_memory, open_gpus

DEBUG = "verl_grpo_debug"
MODEL = Path("models/random")
CONVERSATIONS = Path("data/conversations.jsonl")
STEPS, TOKENS, BATCH, ROLLOUTS = 20, 256, 8, 8
GIB = 2**30
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Bench:
    """A project folder and the device to train on."""

    project: TinyProject
    device: str

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def out(self) -> Path:
        return self.project.path

    def launch(self, run: str, config: str, *overrides: str) -> None:
        """Train to the end, whatever the end is; the launch's output is kept in RUN.launch."""
        with (self.out / f"{run}.launch").open("w") as log:
            subprocess.run(
                command("launch", config, *overrides, "--name", run, "--wait"),
                cwd=self.out,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=2 * PATIENCE_S,
            )

    def answer(self, name: str, *arguments: str) -> dict[str, Any]:
        """The JSON of a command, whatever its exit code, also kept in NAME.json."""
        done = subprocess.run(
            command(*arguments, "--json"),
            cwd=self.out,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {"exit_code": done.returncode, "error": done.stderr[-2000:]}
        self.keep(name, answer)
        return answer

    def keep(self, name: str, value: object) -> None:
        (self.out / f"{name}.json").write_text(json.dumps(value, indent=1))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "grubrics_tui", *arguments]


def prepare(bench: Bench) -> None:
    """The tiny demo's data, a model with random weights, conversations as long as real ones."""
    bench.out.mkdir(parents=True, exist_ok=True)
    bench.project.python("-m", "engine.data.tiny_world")
    write_random_model(bench.out, bench.on_gpu)
    rows = read_rows(bench.out / "data/tiny/processed/train.parquet")
    words = " ".join(row["extra_info"]["golden_rubric"] for row in rows[:12])
    talk = [{"role": "user", "content": "Write."}, {"role": "assistant", "content": words}]
    lines = [json.dumps({"messages": talk, "prompt_id": str(number)}) for number in range(640)]
    (bench.out / CONVERSATIONS).write_text("\n".join(lines) + "\n")


def write_random_model(project: Path, full_size: bool) -> None:
    """Qwen2.5-0.5B's architecture; its tokenizer is the tiny demo's, with fillers up to its size.

    So every token that the model samples has a text.
    """
    import torch
    from transformers import AutoTokenizer, GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(project / "data/tiny/model")
    shape = dict(known_configs()["qwen2.5-0.5b"])
    if not full_size:
        shape |= {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
        shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048}
    shape = {name: value for name, value in shape.items() if value is not None}
    shape.pop("model_type")
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**shape, bos_token_id=None, **ends)).to(torch.bfloat16)
    model.generation_config = GenerationConfig(**ends)
    model.save_pretrained(project / MODEL)
    tokenizer.model_max_length = int(shape["max_position_embeddings"])
    tokenizer.save_pretrained(project / MODEL)
    fill_vocabulary(project / MODEL / "tokenizer.json", int(shape["vocab_size"]))


def fill_vocabulary(file: Path, size: int) -> None:
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    taken = {*vocabulary.values(), *(token["id"] for token in content["added_tokens"])}
    vocabulary |= {f"w{number:06}": number for number in range(size) if number not in taken}
    file.write_text(json.dumps(content))


def grpo(bench: Bench, engine: str, rank: int, *extra: str) -> None:
    """Twenty steps of the packaged debug config: 8 prompts x 8 rollouts x 256 tokens."""
    run = f"grpo-{engine}-{'lora' if rank else 'full'}"
    bench.launch(run, DEBUG, *grpo_values(bench, run, engine, rank), *extra)
    bench.answer(f"{run}.show", "show", run)
    bench.answer(f"{run}.diagnosis", "diagnose", run)
    bench.answer(f"{run}.estimate", "estimate", run)


def grpo_values(bench: Bench, run: str, engine: str, rank: int) -> list[str]:
    actor = "actor_rollout_ref"
    values = {
        "grubrics.device": bench.device,
        "judge.provider": "offline",
        "reward_config.use_contrastive": "false",
        "data.train_files": "data/tiny/processed/train.parquet",
        "data.val_files": "data/tiny/processed/val.parquet",
        "data.max_prompt_length": 256,
        "data.max_response_length": TOKENS if bench.on_gpu else 32,
        "data.train_batch_size": BATCH,
        f"{actor}.model.path": MODEL,
        f"{actor}.model.lora_rank": rank,
        f"{actor}.actor.ppo_mini_batch_size": BATCH,
        f"{actor}.actor.ppo_micro_batch_size_per_gpu": 16,
        f"{actor}.rollout.n": ROLLOUTS,
        f"{actor}.rollout.name": engine,
        f"{actor}.rollout.log_prob_micro_batch_size_per_gpu": 16,
        f"{actor}.ref.log_prob_micro_batch_size_per_gpu": 16,
        "trainer.total_training_steps": STEPS if bench.on_gpu else 2,
        "trainer.test_freq": -1,
        "trainer.save_freq": STEPS,
        "trainer.experiment_name": run,
    }
    if engine == "vllm":
        values |= {
            f"{actor}.rollout.gpu_memory_utilization": 0.25,
            f"{actor}.rollout.load_format": "safetensors" if rank else "auto",
        }
    return [f"{key}={value}" for key, value in values.items()]


def sft(bench: Bench) -> None:
    """Twenty steps of full fine-tuning in bf16, 16 conversations of about 600 tokens each."""
    values = {
        "grubrics.device": bench.device,
        "model.path": MODEL,
        "lora.r": 0,
        "data.train_file": CONVERSATIONS,
        "data.max_seq_length": 1024,
        "training.output_dir": "checkpoints/sft-random",
        "training.max_steps": STEPS if bench.on_gpu else 2,
        "training.per_device_train_batch_size": 16,
        "training.gradient_accumulation_steps": 1,
        "training.gradient_checkpointing": "false",
        "training.bf16": str(bench.on_gpu).lower(),
        "logging.report_to": "[console,file]",
    }
    pairs = [f"{key}={value}" for key, value in values.items()]
    bench.launch("sft", "sft_healthbench", *pairs)
    bench.answer("sft.show", "show", "sft")
    bench.answer("sft.estimate", "estimate", "sft")


def tiny(bench: Bench, engine: str, steps: int = 40) -> None:
    """The tiny demo on the GPU: does the reward rise with this rollout engine?"""
    if not (bench.out / "checkpoints/grubrics-transfer/sft-tiny/final").exists():
        bench.launch("sft-tiny", "sft_tiny", f"grubrics.device={bench.device}")
    run = f"tiny-{engine}"
    bench.launch(
        run, "grpo_tiny", *tiny_values(bench, run, engine), f"total_training_steps={steps}"
    )
    bench.answer(f"{run}.show", "show", run)
    bench.answer(f"{run}.diagnosis", "diagnose", run)


def tiny_values(bench: Bench, run: str, engine: str) -> list[str]:
    values = [
        f"grubrics.device={bench.device}",
        f"trainer.experiment_name={run}",
        f"actor_rollout_ref.rollout.name={engine}",
        "trainer.val_before_train=false",
        "trainer.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.model.use_remove_padding=false",
        "actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    ]
    if engine == "vllm":
        values += ["actor_rollout_ref.rollout.gpu_memory_utilization=0.15"]
        values += ["actor_rollout_ref.rollout.enforce_eager=true"]
    return values


def evaluate(bench: Bench) -> None:
    """The tiny run's checkpoint with the rollout engine of its config, twice: nothing again."""
    for number in (1, 2):
        started = time.monotonic()
        bench.answer(f"evaluate-{number}", "evaluate", "tiny-vllm", "--baseline", "base,sft,golden")
        bench.keep(f"evaluate-{number}.time", time.monotonic() - started)


def memory(bench: Bench) -> None:
    """benchmarks/memory.py: peaks of a training process beside the estimate."""
    with (bench.out / "memory.md").open("w") as table:
        script = str(REPOSITORY / "benchmarks/memory.py")
        subprocess.run([sys.executable, script], env=environment(), stdout=table, stderr=table)


def kill(bench: Bench, victim: str, phase: str) -> None:
    """SIGKILL to a process of a run: its state, what is left, memory of the GPU after ``reap``."""
    run = f"kill-{victim}-{phase}"
    held = used()
    with (bench.out / f"{run}.launch").open("w") as log:
        started = subprocess.run(
            command(
                "launch", "grpo_tiny", *tiny_values(bench, run, "hf"),
                "data.max_response_length=512" if phase == "generation" else "total_epochs=900",
                "total_training_steps=500", "--name", run,
            ),
            cwd=bench.out, env=environment(), stdout=log, stderr=log,
        )  # fmt: skip
    if started.returncode or not wait(lambda: steps(bench, run) >= 2):
        bench.answer(f"{run}.failed", "show", run)
        bench.answer(f"{run}.diagnosis", "diagnose", run)
        return
    time.sleep(0.3)
    before = bench.answer(f"{run}.before", "show", run)
    pids = [int(pid) for pid in before.get("pids") or []]
    on_gpu = gpu_memory()
    names = {"driver": "engine.train.grpo", "worker": "WorkerDict"}
    chosen = [pid for pid in pids if names[victim] in title(pid)]
    seen = {"pids": len(pids), "on_gpu": {str(pid): [on_gpu[pid], title(pid)] for pid in on_gpu}}
    seen |= {"chosen": [[pid, title(pid)] for pid in chosen], "run_mem": last_run_mem(bench, run)}
    for pid in chosen[:1]:
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    wait(lambda: state(bench, run) in ("failed", "lost", "finished"))
    seen["ended_after_s"] = time.monotonic() - killed
    seen["state"] = bench.project.read_state(run)
    seen["reap"] = bench.answer(f"{run}.reap", "reap", "--yes")
    seen["left"] = [[pid, title(pid)] for pid in pids if psutil.pid_exists(pid)]
    seen["gpu_bytes"] = {"before": held, "after": used()}
    seen["diagnosis"] = bench.answer(f"{run}.diagnosis", "diagnose", run)
    bench.keep(run, seen)


def faults(bench: Bench, name: str) -> None:
    """A planted fault: is it named?"""
    trainer = [sys.executable, "-m", "engine.train.grpo", "--config"]
    run = f"fault-{name}"
    values = grpo_values(bench, run, "vllm" if name == "wakeup" else "hf", 16)
    actor = "actor_rollout_ref"
    extra = {
        "update": [
            f"{actor}.actor.ppo_micro_batch_size_per_gpu=512", f"{actor}.rollout.n=64",
            f"{actor}.actor.entropy_coeff=0.01", f"{actor}.model.use_fused_kernels=false",
        ],
        "wakeup": [f"{actor}.rollout.gpu_memory_utilization=0.98"],
        "assertion": [f"{actor}.model.path={broken_model(bench)}"],
        "dtype": [f"{actor}.model.override_config.attn_implementation=flash_attention_2"],
    }[name]  # fmt: skip
    with (bench.out / f"{run}.launch").open("w") as log:
        subprocess.run(
            command("run", "--name", run, "--wait", "--", *trainer, DEBUG, *values, *extra),
            cwd=bench.out, env=environment(), stdout=log, stderr=log, timeout=PATIENCE_S,
        )  # fmt: skip
    bench.answer(f"{run}.diagnosis", "diagnose", run)


def broken_model(bench: Bench) -> Path:
    """The tiny demo's model with half of its embeddings: larger token IDs are out of range."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path("models/broken")
    if not (bench.out / folder).exists():
        source = bench.out / "data/tiny/model"
        model = AutoModelForCausalLM.from_pretrained(source)
        model.resize_token_embeddings(model.config.vocab_size // 2)
        model.save_pretrained(bench.out / folder)
        AutoTokenizer.from_pretrained(source).save_pretrained(bench.out / folder)
    return folder


def screen(bench: Bench) -> None:
    """The live view of the first active run: its text, a picture, its CPU while it watches."""
    from terminal import Terminal

    active = wait(lambda: next(iter(running(bench)), None))
    run = active or "grpo-vllm-lora"
    os.chdir(bench.out)
    os.environ["GRUBRICS_RUNS"] = "runs"
    wait(lambda: steps(bench, str(run)) >= 5)
    with Terminal(command("watch", str(run)), 160, 48) as terminal:
        terminal.pump(6)
        watcher = max(terminal.processes(), key=lambda process: process.memory_info().rss)
        watcher.cpu_percent()
        terminal.pump(8)
        share = watcher.cpu_percent()
        terminal.send("P")
        terminal.pump(3)
        (bench.out / "screen.txt").write_text(terminal.text)
        bench.keep("screen", {"run": run, "cpu_percent": share})


def wait(test: Callable[[], Any], patience: float = PATIENCE_S) -> Any:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if value := test():
            return value
        time.sleep(0.2)
    return None


def state(bench: Bench, run: str) -> str | None:
    with suppress(ValueError):
        return bench.project.state(run)
    return None


def running(bench: Bench) -> Iterator[str]:
    for folder in sorted((bench.out / "runs").glob("grpo-*")):
        if state(bench, folder.name) == "running":
            yield folder.name


def steps(bench: Bench, run: str) -> int:
    if state(bench, run) in ("failed", "lost", "finished"):
        return sys.maxsize
    file = bench.out / "runs" / run / "train_log.jsonl"
    return sum(1 for _ in jsonl.read(file)) if file.is_file() else 0


def title(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120]
    except psutil.Error:
        return "gone"


def used() -> int:
    return sum(gpu.memory_used() or 0 for gpu in open_gpus())


def samples(bench: Bench, run: str) -> list[dict[str, Any]]:
    files = sorted((bench.out / "runs" / run).glob("attempt_*/system.jsonl"))
    return [record for file in files for record in jsonl.read(file)]


def last_run_mem(bench: Bench, run: str) -> Any:
    return [gpu for record in samples(bench, run)[-1:] for gpu in record["gpus"]]


ACTIONS: dict[str, Callable[[Bench], None]] = {
    "prepare": prepare,
    "memory": memory,
    "sft": sft,
    "hf-lora": lambda bench: grpo(bench, "hf", 16),
    "hf-full": lambda bench: grpo(bench, "hf", 0),
    "vllm-lora": lambda bench: grpo(bench, "vllm", 16),
    "vllm-full": lambda bench: grpo(bench, "vllm", 0),
    "tiny-hf": lambda bench: tiny(bench, "hf"),
    "tiny-vllm": lambda bench: tiny(bench, "vllm"),
    "evaluate": evaluate,
    "screen": screen,
    **{
        f"kill-{victim}-{phase}": partial(kill, victim=victim, phase=phase)
        for victim in ("driver", "worker")
        for phase in ("generation", "update")
    },
    **{
        f"fault-{name}": partial(faults, name=name)
        for name in ("update", "wakeup", "assertion", "dtype")
    },
}


def print_tables(bench: Bench) -> None:
    print("| run | state | s/step, median of the last half | generation | old log-probs | update |")
    print("|---|---|---|---|---|---|")
    for folder in sorted((bench.out / "runs").iterdir()):
        print(f"| {folder.name} | {state(bench, folder.name)} | {times(folder)} |")
    print("\n| run | GPU memory of its processes, peak GiB | estimate GiB |\n|---|---|---|")
    for folder in sorted((bench.out / "runs").iterdir()):
        cards = [gpu for record in samples(bench, folder.name) for gpu in record["gpus"]]
        peak = max((gpu["run_mem"] or 0 for gpu in cards), default=0) / GIB
        print(f"| {folder.name} | {peak:.2f} | {estimated(bench, folder.name)} |")


def estimated(bench: Bench, run: str) -> str:
    """The largest phase of ``estimate``, in GiB."""
    file = bench.out / f"{run}.estimate.json"
    memory = json.loads(file.read_text()).get("memory") if file.exists() else None
    return f"{memory['peak_bytes'] / GIB:.2f}" if memory else "–"


def times(folder: Path) -> str:
    names = ("timing_s/step", "timing_s/gen", "timing_s/old_log_prob", "timing_s/update_actor")
    columns = [values(folder, name) for name in names]
    return " | ".join(f"{median(c[len(c) // 2 :]):.2f}" if c else "–" for c in columns)


def values(folder: Path, name: str) -> list[float]:
    files = sorted(folder.glob("attempt_*/metrics.jsonl"))
    records = [record.get("data", {}) for file in files for record in jsonl.read(file)]
    return [float(record[name]) for record in records if record.get(name) is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="project folder")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--table", action="store_true", help="print the tables")
    parser.add_argument("steps", nargs="*", choices=[*ACTIONS, []], metavar="STEP")
    args = parser.parse_args()
    bench = Bench(TinyProject(args.out.resolve()), args.device)
    for step in args.steps:
        started = time.monotonic()
        try:
            ACTIONS[step](bench)
        except Exception as error:  # The other steps are worth their GPU time.
            print(f"{step}: {type(error).__name__}: {error}", flush=True)
        print(f"{step}: {time.monotonic() - started:.1f} s", flush=True)
    if args.table:
        print_tables(bench)


if __name__ == "__main__":
    main()
