"""What a sweep of five checkpoints takes, and what ``sweep --follow`` costs a run that trains.

    python benchmarks/evaluation.py [--out DIR] [--steps 40] [--pairs 2]

Trains the tiny demo. Five checkpoints of a GRPO run are evaluated on the 64 held-out items, in one
sweep and, as one would by hand, by a process each. Then GRPO trains alone and beside
``sweep --follow`` in turn: the pickup time is from the completion marker of a checkpoint to the
moment when its evaluation begins. Exits with 1 if an answer was generated twice.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tiny_project import TinyProject

SWEPT = "swept"
CHECKPOINTS = 5
SMALL = (
    "data.train_batch_size=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
    "trainer.val_before_train=false",
)
LOAD = """
import sys, time
from engine.train.evaluate import load_target
job = {"device": "cpu", "dtype": "float32", "chat_template": None}
seconds = []
for source in sys.argv[1:]:
    started = time.process_time()
    load_target("checkpoint", source, job)
    seconds.append(time.process_time() - started)
print(sum(seconds[1:]))
"""
_LOOK_S = 0.05


@dataclass(frozen=True)
class Followed:
    """A run with or without a sweep beside it. ``pickups``: seconds by checkpoint."""

    step_s: float
    pickups: tuple[float, ...] = ()


@dataclass(frozen=True, order=True)
class Seconds:
    """What a command took: ``cpu`` of all its processes, which other programs hardly change."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:6.1f} s, {self.cpu:5.1f} s of CPU time"


def seconds_of(project: TinyProject, *arguments: str) -> Seconds:
    wall, cpu = time.monotonic(), cpu_of_children()
    project.call(*arguments)
    return Seconds(time.monotonic() - wall, cpu_of_children() - cpu)


def cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def measure_sweep(project: TinyProject) -> bool:
    """Print the times of the sweep. Returns whether every answer was generated once."""
    own = (f"trainer.total_training_steps={CHECKPOINTS}", "trainer.save_freq=1")
    keep = (f"trainer.max_actor_ckpt_to_keep={CHECKPOINTS}", "trainer.test_freq=-1")
    project.train_grpo(SWEPT, 1, *SMALL, *own, *keep)
    steps = range(1, CHECKPOINTS + 1)
    folders = [
        str(project.path / "checkpoints" / "grubrics-transfer" / SWEPT / f"global_step_{step}")
        for step in steps
    ]
    # A seed of its own makes every call a new evaluation.
    seeds = iter(range(int(time.time()), int(time.time()) + 100))
    seed = next(seeds)
    single = [
        seconds_of(project, "evaluate", f"{SWEPT}:{step}", "--seed", str(seed)) for step in steps
    ]
    loads = float(project.python("-c", LOAD, folders[0], *folders[1:]))
    seed = next(seeds)
    sweep = ("sweep", SWEPT, "--seed", str(seed))
    first = seconds_of(project, *sweep)
    folder = project.path / project.call(*sweep)["dir"]
    log = (folder / "generate.log").stat().st_size
    third = min(seconds_of(project, *sweep) for _ in range(3))
    lines = [
        (file.parent.name, row["uid"], row["sample"])
        for file in folder.glob("*/answers.jsonl")
        for row in map(json.loads, file.open())
    ]
    is_once = len({*lines}) == len(lines) and (folder / "generate.log").stat().st_size == log
    goal = 1.5 * single[0].cpu + loads
    alone = Seconds(sum(s.wall for s in single), sum(s.cpu for s in single))
    print(f"the first checkpoint alone       {single[0]}")
    print(f"four further weight loads        {loads:6.1f} s")
    print(f"sweep of five and the base       {first}  (goal {goal:.1f} s of CPU time)")
    print(f"a process for each of the five   {alone}")
    print(f"third start                      {third}  (goal 2 s)")
    print(f"answers {len(lines)}, generated twice {len(lines) - len({*lines})}")
    return is_once


def train_beside(project: TinyProject, run: str, steps: int, *, follow: bool) -> Followed:
    """Train a run with four checkpoints to its end, if wanted with a sweep beside it."""
    own = (f"trainer.experiment_name={run}", f"trainer.total_training_steps={steps}")
    save = (f"trainer.save_freq={steps // 4}", "trainer.max_actor_ckpt_to_keep=4")
    quiet = ("trainer.val_before_train=false", "trainer.test_freq=-1")
    project.call("launch", "grpo_tiny", *own, *save, *quiet, "--name", run)
    sweep = project.start("sweep", run, "--follow") if follow else None
    marked: dict[int, float] = {}
    while project.state(run) not in ("finished", "failed", "lost"):
        if (step := marked_step(project, run)) is not None:
            marked.setdefault(step, time.time())
        time.sleep(_LOOK_S)
    if (step := marked_step(project, run)) is not None:
        marked.setdefault(step, time.time())
    if sweep is not None:
        sweep.wait()
    started = dict(evaluation_starts(project, run))
    pickups = [started[step] - moment for step, moment in marked.items() if step in started]
    return Followed(step_median(project, run), tuple(pickups))


def marked_step(project: TinyProject, run: str) -> int | None:
    """The last complete checkpoint, as verl marks it."""
    folder = project.path / "checkpoints" / "grubrics-transfer" / run
    file = folder / "latest_checkpointed_iteration.txt"
    text = file.read_text() if file.is_file() else ""
    return int(text) if text.strip() else None


def evaluation_starts(project: TinyProject, run: str) -> Iterator[tuple[int, float]]:
    """When the folder of each checkpoint was made in an evaluation."""
    for file in project.path.glob("evaluations/*/*/target.json"):
        name, _, step = json.loads(file.read_text())["name"].rpartition(":")
        if name == run:
            yield int(step), file.stat().st_mtime


def step_median(project: TinyProject, run: str) -> float:
    """Seconds of a training step, without the first, which loads."""
    times = [
        json.loads(line)["t"] for line in (project.path / "runs" / run / "train_log.jsonl").open()
    ]
    return statistics.median(after - before for before, after in pairwise(times[1:]))


def measure_following(project: TinyProject, steps: int, pairs: int) -> None:
    alone, beside = [], []
    begun = int(time.time())
    for number in range(pairs):
        alone.append(train_beside(project, f"alone-{begun}-{number}", steps, follow=False))
        beside.append(train_beside(project, f"beside-{begun}-{number}", steps, follow=True))
    for one, other in zip(alone, beside, strict=True):
        share = other.step_s / one.step_s - 1
        pickups = ", ".join(f"{seconds:.1f}" for seconds in other.pickups)
        print(f"training step, median, alone     {one.step_s:6.2f} s")
        print(f"beside sweep --follow            {other.step_s:6.2f} s  ({share:+.0%}; goal +10%)")
        print(f"pickup of a new checkpoint       {pickups} s  (goal 5 s)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="keep the project here (default: a new folder)")
    parser.add_argument("--steps", type=int, default=40, help="of each run beside a sweep")
    parser.add_argument("--pairs", type=int, default=2, help="runs alone and beside a sweep")
    given = parser.parse_args()
    out = (given.out or Path(tempfile.mkdtemp(prefix="evaluation-"))).resolve()
    project = TinyProject(out)
    project.prepare()
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    is_once = measure_sweep(project)
    measure_following(project, given.steps, given.pairs)
    print(f"load {os.getloadavg()[0]:.1f}\nproject: {out}")
    return 0 if is_once else 1


if __name__ == "__main__":
    sys.exit(main())
