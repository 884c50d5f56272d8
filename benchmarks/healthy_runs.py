"""Is the doctor quiet about healthy runs? Tiny runs of many seeds and settings, followed live.

    python benchmarks/healthy_runs.py [--runs 100] [--at-once 2] [--seed 0] [--out DIR]

Every run really trains (verl for GRPO, the project's own SFT) with settings drawn from ranges in
which the tiny world trains soundly. The doctor follows each as a screen would, and reads it once
more at its end. Whatever it says above info is printed with the run's settings: a false alarm. With
``--out`` of an earlier call the runs that lie there are read again instead of trained anew.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.doctor.diagnose import diagnose_run
from engine.doctor.finding import Finding
from engine.doctor.live import RunFollower
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state

REPOSITORY = Path(__file__).resolve().parents[1]
LOOK_S = 2.0
PATIENCE_S = 1800.0
SFT_SHARE = 0.4


@dataclass(frozen=True)
class Drawn:
    """A healthy run to be: a recipe and what is changed of it."""

    name: str
    recipe: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """What the doctor said of a run: live, look by look, and at its end."""

    drawn: Drawn
    state: str
    live: tuple[str, ...]
    after: tuple[str, ...]
    seconds: float

    @property
    def is_quiet(self) -> bool:
        return not self.live and not self.after


def drawn(number: int, seed: int) -> Drawn:
    draw = random.Random(f"{seed}/{number}")
    if draw.random() < SFT_SHARE:
        return Drawn(f"sft-{number:03}", "sft_tiny", tuple(_sft(draw, number)))
    return Drawn(f"grpo-{number:03}", "grpo_tiny", tuple(_grpo(draw, number)))


def _sft(draw: random.Random, number: int) -> Iterator[str]:
    yield f"training.seed={number}"
    yield f"training.output_dir=checkpoints/sft-{number:03}"
    yield f"training.max_steps={draw.choice([40, 80, 150, 300, 400])}"
    yield f"training.learning_rate={_between(draw, 5e-4, 5e-3):.2g}"
    yield f"training.per_device_train_batch_size={draw.choice([2, 4, 8, 16])}"
    yield f"training.gradient_accumulation_steps={draw.choice([1, 1, 2])}"
    yield f"training.lr_scheduler_type={draw.choice(['cosine', 'constant'])}"
    yield f"training.warmup_ratio={draw.choice([0.03, 0.1, 0.2])}"
    yield f"training.save_steps={draw.choice([-1, 40])}"


def _grpo(draw: random.Random, number: int) -> Iterator[str]:
    steps = draw.choice([8, 12, 16, 24])
    yield f"grubrics.seed={number}"
    yield f"data.seed={number}"
    yield f"trainer.default_local_dir=checkpoints/grpo-{number:03}"
    yield f"trainer.total_training_steps={steps}"
    yield f"trainer.test_freq={draw.choice([-1, 5, 10])}"
    yield f"trainer.save_freq={draw.choice([-1, 5, 10])}"
    yield f"actor_rollout_ref.actor.optim.lr={_between(draw, 2e-5, 3e-4):.2g}"
    yield f"actor_rollout_ref.actor.optim.lr_warmup_steps={draw.choice([0, 2, 5])}"
    yield f"actor_rollout_ref.rollout.temperature={draw.choice([0.8, 1.0, 1.0, 1.2])}"
    yield f"actor_rollout_ref.rollout.n={draw.choice([4, 8, 8])}"
    yield f"data.train_batch_size={(batch := draw.choice([4, 8]))}"
    yield f"actor_rollout_ref.actor.ppo_mini_batch_size={draw.choice([4, batch])}"
    yield "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"
    yield "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16"
    yield "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16"
    yield f"data.max_response_length={draw.choice([64, 80, 96])}"
    yield f"actor_rollout_ref.actor.entropy_coeff={draw.choice([0, 0, 0.001])}"
    if draw.random() < 0.4:
        yield "actor_rollout_ref.actor.use_kl_loss=true"
        yield f"actor_rollout_ref.actor.kl_loss_coef={draw.choice([0.001, 0.01])}"


def _between(draw: random.Random, low: float, high: float) -> float:
    """Evenly spread over the orders of magnitude."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def followed(project: Path, plan: Drawn) -> Told:
    """Train it, and look at it as a screen would until it ends."""
    begun, run = time.monotonic(), RunDir(project / "runs" / plan.name)
    said: dict[str, None] = {}
    if not run.path.exists():
        _call(project, "-m", "grubrics_tui", "launch", plan.recipe, *plan.overrides,
              "--name", plan.name, "--json")  # fmt: skip
    follower = RunFollower(run)
    while time.monotonic() - begun < PATIENCE_S:
        state, found = follower.look()
        said.update(dict.fromkeys(_alarms(found)))
        if state.has_ended:
            break
        time.sleep(LOOK_S)
    shutil.rmtree(project / "checkpoints" / plan.name, ignore_errors=True)
    return Told(
        plan,
        str(observed_state(run).state),
        tuple(said),
        tuple(_alarms(diagnose_run(run))),
        time.monotonic() - begun,
    )


def _alarms(found: Sequence[Finding]) -> list[str]:
    return [f"{one.severity} {one.id}: {one.cause}" for one in found if one.severity.is_alarm]


def _call(project: Path, *arguments: str) -> None:
    path = f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr or done.stdout}")


def prepared(project: Path) -> None:
    """The tiny world, and the SFT model that every GRPO run starts from."""
    if not (project / "configs").exists():
        shutil.copytree(REPOSITORY / "configs", project / "configs")
    if not (project / "data").exists():
        _call(project, "-m", "engine.data.tiny_world")
    if not (project / "runs" / "base").exists():
        _call(project, "-m", "grubrics_tui", "launch", "sft_tiny", "--name", "base", "--wait")


def report(told: Sequence[Told], seconds: float) -> str:
    rows = [
        "| runs | kind | finished | a finding above info, live | at the end |",
        "|" + "---|" * 5,
    ]
    for kind in ("grpo", "sft"):
        those = [one for one in told if one.drawn.name.startswith(kind)]
        finished = sum(one.state == "finished" for one in those)
        live, after = sum(bool(one.live) for one in those), sum(bool(one.after) for one in those)
        rows.append(f"| {len(those)} | {kind} | {finished} | {live} | {after} |")
    return "\n".join([*rows, f"\n{seconds / 60:.0f} minutes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep the project here (default: a new folder)")
    given = parser.parse_args()
    project = (given.out or Path(tempfile.mkdtemp(prefix="healthy-runs-"))).resolve()
    project.mkdir(parents=True, exist_ok=True)
    begun, told = time.monotonic(), []
    prepared(project)
    plans = [drawn(number, given.seed) for number in range(given.runs)]
    with ThreadPoolExecutor(given.at_once) as pool:
        for one in pool.map(partial(followed, project), plans):
            told.append(one)
            mark = "quiet" if one.is_quiet and one.state == "finished" else "LOUD"
            print(f"{mark} {one.drawn.name} {one.state} {one.seconds:.0f} s", flush=True)
            if mark == "LOUD":
                print(json.dumps([one.drawn.overrides, one.live, one.after], indent=1), flush=True)
    print(report(told, time.monotonic() - begun))
    print(f"the runs lie in {project}")


if __name__ == "__main__":
    main()
