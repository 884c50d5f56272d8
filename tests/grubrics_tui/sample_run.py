"""Writes run directories as the trainer and its supervisor would, whole or growing.

``python tests/grubrics_tui/sample_run.py RUNS [--live]`` makes a few to look at.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine.base import jsonl
from engine.run.manifest import Origin, Setting
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, StateName, write_state
from engine.run.trust import vouch

GIB = 2**30

CONSOLE = (
    b"\x1b[36m(TaskRunnerV1 pid=25496)\x1b[0m INFO: step %d - critic/score/mean:0.41",
    b"\x1b[36m(RewardLoopWorker pid=25611)\x1b[0m [reward] judged 16 rollouts of step %d",
    b"Training Progress:  10%%|#         | \rTraining Progress: |####      | %d/40",
    b"\x1b[36m(WorkerDict pid=25577)\x1b[0m WARNING: [not markup] step %d \x1b]0;owned\x07\x1b[2J",
)

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
REMOTE = b"ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_update_actor()"
KEY = b"openai.AuthenticationError: Error code: 401 - Incorrect API key provided"

MEMORY = {
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
    "actor_rollout_ref.actor.use_dynamic_bsz": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5,
}
"""What a run that is out of memory can turn."""


def verl_line(step: int, gradient: float) -> bytes:
    """A step as verl prints it."""
    return f"step:{step} - critic/score/mean:0.5 - actor/grad_norm:{gradient}\n".encode()


@dataclass
class SampleRun:
    """One run directory that grows step by step; the writing process plays its supervisor."""

    run: Run
    kind: str = "grpo"
    total: int = 40
    gpus: int = 0
    seed: int = 7
    started: float = field(default_factory=lambda: time.time() - 600)
    step: int = 0

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        *,
        kind: str = "grpo",
        total: int = 40,
        gpus: int = 0,
        started: float | None = None,
    ) -> SampleRun:
        """``started`` is in Unix seconds; without it the run began ten minutes ago."""
        sample = cls(Run(root / name), kind, total, gpus)
        sample.started = sample.started if started is None else started
        sample.run.attempt(1).path.mkdir(parents=True)
        checkpoint = "training.output_dir" if kind == "sft" else "trainer.default_local_dir"
        config = {checkpoint: {"value": "checkpoints/sample", "origin": "file"}}
        if kind == "grpo":
            values: dict[str, Any] = dict(MEMORY)
            config |= {key: {"value": now, "origin": "default"} for key, now in values.items()}
        argv = ["python", "-m", f"engine.train.{kind}"]
        manifest = {
            "v": 1,
            "id": name,
            "recipe": f"{kind}_tiny",
            "kind": kind,
            "created": sample.started,
            "cwd": str(root),
            "total_steps": total,
            "config": config,
            "argv": argv,
            "changes": [],
            "attempts": [{"number": 1, "started": sample.started, "argv": argv}],
        }
        jsonl.write_json(sample.run.manifest_file, manifest)
        vouch(sample.run)
        sample.say("starting")
        return sample

    def configure(self, values: Mapping[str, tuple[Any, Origin]]) -> None:
        """The run's configuration: of every key its value and where that came from."""
        config = {key: Setting(value, origin) for key, (value, origin) in values.items()}
        self.run.write_manifest(replace(self.run.read_full_manifest(), config=config))
        vouch(self.run)

    def say(self, state: StateName, **details: object) -> None:
        """Replace state.json."""
        ended = time.time() if state in ("finished", "failed", "lost") else None
        base = RunState(
            state,
            started=self.started,
            ended=ended,
            step=self.step or None,
            total_steps=self.total,
            supervisor=identify(os.getpid()),
            heartbeat=time.time(),
        )
        write_state(self.run, base.evolve(**details))

    def print(self, *lines: bytes) -> None:
        """Append raw console lines."""
        with self.run.attempt(1).console.open("ab") as console:
            console.write(b"".join(line + b"\n" for line in lines))

    def grow(self, steps: int = 1) -> None:
        """Log the next steps, with system samples and console lines in between."""
        for _ in range(steps):
            self.step += 1
            metrics = self.grpo_metrics() if self.kind == "grpo" else self.sft_metrics()
            moment = self.started + self.step * 14
            record = {"v": 1, "step": self.step, "attempt": 1, "t": moment, "metrics": metrics}
            jsonl.append(self.run.train_log, record)
            for _ in range(2):
                jsonl.append(self.run.attempt(1).system, self.system(moment))
            self.print(*(line % self.step for line in CONSOLE))

    def grpo_metrics(self) -> dict[str, float | None]:
        n, noise = self.step, random.Random(self.seed * 1000 + self.step)
        gen, judge = 6.2 + noise.random(), 2.4 + 1.5 * noise.random()
        timing = {
            "timing_s/gen": gen,
            "timing_s/reward": judge,
            "timing_s/old_log_prob": 0.9 + 0.2 * noise.random(),
            "timing_s/adv": 0.05,
            "timing_s/update_actor": 2.6 + 0.3 * noise.random(),
            "timing_s/update_weights": 0.6,
        }
        if n % 10 == 0:
            timing["timing_s/save_checkpoint"] = 1.9
        values: dict[str, float | None] = {
            **timing,
            "timing_s/step": sum(timing.values()) + 0.3,
            "reward/mean": 0.38 + 0.22 * math.tanh(n / 14 - 1) + noise.gauss(0, 0.018),
            "reward/std": max(0.02, 0.12 - 0.0012 * n) + 0.02 * noise.random(),
            "reward/min": 0.05,
            "reward/max": 0.9,
            "reward/zero_std_share": 0.0,
            "reward/failed_share": 0.0,
            "judge_api_latency_s": judge / 2,
            "judge_api_latency_p50_s": judge * 0.45,
            "judge_api_latency_p95_s": judge * (0.8 + 0.3 * noise.random()),
            "semaphore_wait_s": 0.2 + 0.2 * noise.random(),
            "reward_total_duration_s": judge,
            "judge/calls": 64.0,
            "judge/errors": 0.0,
            "judge/timeouts": float(n % 9 == 0),
            "judge/parse_failures": 0.0,
            "judge/tokens_in": 80_000.0 + 500 * n,
            "judge/tokens_out": 12_000.0,
            "actor/pg_loss": noise.gauss(0, 0.01),
            "actor/ppo_kl": 0.002 + 0.0004 * n * noise.random(),
            "actor/entropy": 1.4 * math.exp(-n / 60) + 0.02 * noise.random(),
            "actor/grad_norm": 0.4 + 0.2 * noise.random(),
            "actor/pg_clipfrac": 0.02 * noise.random(),
            "response_length/mean": 420.0 + 3 * n + 20 * noise.random(),
            "response_length/clip_ratio": 0.03125 if n % 4 == 0 else 0.0,
        }
        if n % 10 == 0 or n == 1:
            values["val/reward"] = 0.4 + 0.2 * math.tanh(n / 14 - 1)
            values["val-core/healthbench/reward/mean@1"] = 0.38 + 0.2 * math.tanh(n / 14 - 1)
            values["val-core/medqa/reward/mean@1"] = 0.52 + 0.1 * math.tanh(n / 20 - 1)
        return values

    def sft_metrics(self) -> dict[str, float | None]:
        n, noise = self.step, random.Random(self.seed * 1000 + self.step)
        values: dict[str, float | None] = {
            "train/loss": 1.2 + 4.7 * math.exp(-n / 9) + noise.gauss(0, 0.05),
            "train/grad_norm": 1.1 + 2.5 * math.exp(-n / 6) + 0.2 * noise.random(),
            "train/lr": 1e-3 * min(1.0, n / 4) * (1 - n / (self.total * 1.2)),
            "train/global_tokens": 274.0,
        }
        if n % 10 == 0:
            values["val/loss"] = 1.35 + 4.7 * math.exp(-n / 9)
        return values

    def system(self, moment: float) -> dict[str, object]:
        noise = random.Random(self.step * 31)
        gpu = {
            "name": "NVIDIA H100 80GB HBM3",
            "util": 55 + 40 * noise.random(),
            "mem_used": int((58 + 6 * noise.random()) * GIB),
            "mem_total": int(79.6 * GIB),
            "run_mem": int(57.2 * GIB),
            "power_w": 480.0 + 100 * noise.random(),
            "temp_c": 61,
        }
        return {
            "v": 1,
            "t": moment,
            "cpu_percent": 62 + 20 * noise.random(),
            "cpu_count": 2,
            "mem_used": int((5.2 + noise.random()) * GIB),
            "mem_total": 16 * GIB,
            "disk_free": 118 * GIB,
            "run": {"cpu_percent": 140.0 + 20 * noise.random(), "rss": 4 * GIB, "pids": 14},
            "gpus": [{"index": index, **gpu} for index in range(self.gpus)],
        }


def main(root: Path, live: bool) -> None:
    """A finished, a failed, an SFT and, with ``live``, a growing run."""
    done = SampleRun.create(root, "grpo_tiny-20260102-101500")
    done.grow(40)
    done.say("finished")
    failed = SampleRun.create(root, "grpo_tiny-a-very-long-name-typed-late-on-a-friday-night")
    failed.grow(3)
    failed.print(
        b"Traceback (most recent call last):",
        b'  File "trainer.py", line 12, in fit',
        b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory",
    )
    failed.say("failed", exit_code=1, reason="exit code 1 at step 3 of 40: OutOfMemoryError")
    sft = SampleRun.create(root, "sft_tiny-20260101-090000", kind="sft", total=60)
    sft.grow(60)
    sft.say("finished")
    if live:
        _go_on(SampleRun.create(root, "grpo-h100-20260102-120000", gpus=1, total=120))


def _go_on(sample: SampleRun) -> None:
    sample.say("starting", waiting_for="rollout server")
    time.sleep(3)
    sample.started = time.time() - 600
    sample.grow(46)
    while sample.step < sample.total:
        sample.say("running")
        time.sleep(2)
        sample.grow()
    sample.say("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--live" in sys.argv)
