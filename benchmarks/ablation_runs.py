"""Nine runs of an ablation that is killed on the way, and its table computed a second time.

    python benchmarks/ablation_runs.py [--out DIR] [--check ID]

Trains the tiny demo: the base, the same config again as a second arm, and ``no-information``, with
three seeds, 20 steps of 2 prompts x 4 rollouts each. While the fourth run trains, its supervisor
and the process that launches the runs are killed; the same command then continues. SciPy computes
means, differences, intervals and verdicts (Holm) from the runs' reward.jsonl alone. Exits with 1
if a number differs, if a finished run was repeated, or if the equal arms are not identical.
``--check ID`` only compares the table of an ablation in DIR.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import yaml
from held_out import holm
from scipy import stats
from tiny_project import TinyProject

BASE = (
    "grpo_tiny",
    "data.train_batch_size=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
    "trainer.val_before_train=false",
    "trainer.save_freq=5",
)
EQUAL = "again"
ARMS = ("--arm", f"{EQUAL} grubrics.description={EQUAL}", "--arm", "no-information")
SIZE = ("--seeds", "3", "--steps", "20", "--allow-equal")
KILLED = 4
"""The number of the run that is killed."""
PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Arm:
    """The numbers of one row of the table. None for the base, and where the values are equal."""

    mean: float
    difference: float | None
    low: float | None
    high: float | None
    verdict: str | None

    def equals(self, other: Arm) -> bool:
        pairs = [*zip(vars(self).values(), vars(other).values(), strict=True)][:-1]
        numbers = all(_close(a, b) for a, b in pairs)
        return numbers and self.verdict == other.verdict

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.mean:.4f} | | | "
        interval = "" if self.low is None else f"{self.low:+.4f} to {self.high:+.4f}"
        return f"{self.mean:.4f} | {self.difference:+.4f} | {interval} | {self.verdict}"


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def printed_arms(answer: Mapping[str, Any]) -> dict[str, Arm]:
    """What ``ablate`` says."""
    return {
        row["name"]: Arm(
            row["mean"], row["difference"], *(row["ci"] or (None, None)), row["verdict"]
        )
        for row in answer["arms"]
    }


def computed_arms(project: Path, plan_id: str) -> dict[str, Arm]:
    """The same from the plan and the reward records, with SciPy."""
    plan = json.loads((project / "ablations" / plan_id / "plan.json").read_text())
    weights = yaml.safe_load((project / "ablations" / plan_id / "base.yaml").read_text())
    values = {
        arm["name"]: {
            seed: values
            for seed in plan["seeds"]
            if (values := validations(find_run(project, plan_id, arm["name"], seed), weights))
        }
        for arm in plan["arms"]
    }
    base, *others = values
    means = {name: fmean(run[max(run)] for run in runs.values()) for name, runs in values.items()}
    differences = {name: paired(values[base], values[name]) for name in others}
    tested = {
        name: stats.ttest_1samp(numbers, 0.0)
        for name, numbers in differences.items()
        if len(numbers) > 1 and any(numbers)
    }
    p_values = holm([test.pvalue for test in tested.values()])
    adjusted = dict(zip(tested, p_values, strict=True))
    arms = {base: Arm(means[base], None, None, None, None)}
    for name, numbers in differences.items():
        if name in tested:
            low, high = tested[name].confidence_interval(0.95)
            better = "better" if low + high > 0 else "worse"
            verdict = better if adjusted[name] <= 0.05 else "undecided"
            arms[name] = Arm(means[name], fmean(numbers), low, high, verdict)
        elif len(numbers) > 1:
            arms[name] = Arm(means[name], 0.0, 0.0, 0.0, "identical")
        else:
            arms[name] = Arm(means[name], *numbers, None, None, None)
    return arms


def run_id(plan_id: str, arm: str, seed: int) -> str:
    return f"{plan_id}-{arm}-s{seed}"


def find_run(project: Path, plan_id: str, arm: str, seed: int) -> Path | None:
    """The newest try of a run; None before its launch."""
    tries = (project / "runs").glob(f"{run_id(plan_id, arm, seed)}*")
    return max(tries, key=lambda path: (len(path.name), path.name), default=None)


def validations(run: Path | None, config: Mapping[str, Any]) -> dict[int, float]:
    """The mean reward of each validation with the weights of the base; of a step that was repeated
    the later one. No validation may be going on."""
    if run is None:
        return {}
    weights = config["reward_config"]
    steps: dict[int, dict[str, float]] = {}
    for attempt in sorted(run.glob("attempt_*")):
        for line in (attempt / "reward.jsonl").open():
            record = json.loads(line)
            if record["split"] != "val" or record["step"] == 0:
                continue
            parts = record["parts"]
            steps.setdefault(record["step"], {})[record["question_id"]] = (
                parts["alignment"]
                - weights["lambda_len"] * parts["length_penalty"]
                + weights["lambda_info"] * parts["info_value"]
                - weights["lambda_defense"] * parts["defense_penalty"]
            )
    return {step: fmean(rewards.values()) for step, rewards in steps.items()}


def paired(
    base: Mapping[int, Mapping[int, float]], arm: Mapping[int, Mapping[int, float]]
) -> list[float]:
    """The differences by seed at the last step that both runs of a seed have."""
    return [
        arm[seed][step] - base[seed][step]
        for seed in sorted(base.keys() & arm.keys())
        if (step := max(base[seed].keys() & arm[seed].keys(), default=None)) is not None
    ]


def train(project: TinyProject) -> tuple[str, bool]:
    """Plan, start, kill, continue. The ID of the ablation, and whether nothing was repeated."""
    started = time.monotonic()
    answer = project.call("ablate", *BASE, *ARMS, *SIZE)
    folder = project.path / answer["dir"]
    plan = (folder / "plan.json").read_bytes()
    arms = [arm["name"] for arm in answer["arms"]]
    names = [run_id(answer["ablation"], arm, seed) for seed in answer["seeds"] for arm in arms]
    fourth = names[KILLED - 1]
    wait_for(lambda: project.state(fourth) == "running")
    wait_for(lambda: (project.read_state(fourth)["step"] or 0) >= 8)
    done = finished_runs(project)
    kill_runner(folder)
    os.kill(project.read_state(fourth)["supervisor"]["pid"], signal.SIGKILL)
    print(f"killed: the runner, and the supervisor of {fourth}", flush=True)
    project.call("ablate", answer["ablation"], "--wait")
    minutes = (time.monotonic() - started) / 60
    after = finished_runs(project)
    tries = {name: len([*(project.path / "runs").glob(f"{name}*")]) for name in names}
    print(f"{len(after)} of {len(names)} runs finished in {minutes:.1f} min; load "
          f"{os.getloadavg()[2]:.1f}; tries of {fourth}: {tries[fourth]}")  # fmt: skip
    kept = all(after.get(run) == ended for run, ended in done.items())
    is_same_plan = (folder / "plan.json").read_bytes() == plan
    return answer["ablation"], len(after) == len(names) and kept and is_same_plan


def finished_runs(project: TinyProject) -> dict[str, float]:
    """When each finished run of an ablation ended."""
    states = {
        path.name: project.read_state(path.name)
        for path in (project.path / "runs").glob("*-s[0-9]*")
    }
    return {run: state["ended"] for run, state in states.items() if state["state"] == "finished"}


def kill_runner(folder: Path) -> None:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if "engine.ablations.runner" in command and str(folder) in command:
                process.kill()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"it did not happen within {PATIENCE_S:.0f} s")
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="keep the project here (default: a new folder)")
    parser.add_argument("--check", metavar="ID", help="only compare the table of this ablation")
    given = parser.parse_args()
    out = (given.out or Path(tempfile.mkdtemp(prefix="ablation-runs-"))).resolve()
    project, is_right, plan_id = TinyProject(out), True, given.check
    if plan_id is None:
        project.prepare()
        plan_id, is_right = train(project)
    printed = printed_arms(project.call("ablate", plan_id, "--dry-run"))
    computed = computed_arms(out, plan_id)
    print("\n| arm | mean | difference | 95% interval | verdict | SciPy |")
    print("|---" * 6 + "|")
    for name, arm in printed.items():
        is_equal = arm.equals(computed[name])
        is_right = is_right and is_equal and (name != EQUAL or arm.verdict == "identical")
        print(f"| {name} | {arm} | {'equal' if is_equal else computed[name]} |")
    print(f"\nproject: {out}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
