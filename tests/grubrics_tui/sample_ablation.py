"""Writes the plan of an ablation and its runs: finished, failed, running and planned ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from engine.base import jsonl
from engine.config.load import load_config
from engine.measure.ablations.plan import AblationPlan, Job, make_plan
from tests.grubrics_tui.sample_run import SampleRun

LR = "actor_rollout_ref.actor.optim.lr"
STEPS = 20
REWARDS: Mapping[str, tuple[float | None, ...]] = {
    "base": (0.31, 0.35, 0.29),
    "lr=1e-3": (0.42, 0.47, 0.41),
    "lr=1e-1": (0.05, 0.02, 0.07),
    "temperature=0.7": (0.33, 0.30),
}
"""The validation reward of each arm at its last step, seed by seed. The first run without one is
active, and those after it have not started."""
FAILED = "lr=1e-1"


def make_ablation(root: Path, started: float, text: str = "") -> AblationPlan:
    """In the current folder. ``root``: the folder of the runs; ``started``: of the first run;
    ``text``: another difference of the second arm."""
    arms = {
        "lr=1e-3": [f"{LR}=1e-3"],
        FAILED: [f"{LR}=1e-1"],
        "temperature=0.7": ["actor_rollout_ref.rollout.temperature=0.7"],
    }
    base = load_config("grpo_tiny", (), {})
    plan = replace(make_plan(base, {}, [*arms.items()], 3, STEPS), id="grpo_tiny-1a2b3c")
    if text:
        base_arm, arm, *others = plan.arms
        arm = replace(arm, differences={**arm.differences, text: (text, text)})
        plan = replace(plan, arms=(base_arm, arm, *others))
    plan.write(base)
    for number, job in enumerate(plan.jobs()):
        rewards = REWARDS[job.arm]
        index = plan.seeds.index(job.seed)
        if index <= len(rewards):
            reward = rewards[index] if index < len(rewards) else None
            make_run(root, job, reward, started + 600 * number)
    return plan


def make_run(root: Path, job: Job, reward: float | None, started: float) -> None:
    """A run with one validation at the last step; without ``reward``, in the middle of its work."""
    sample = SampleRun.create(root, job.run, total=STEPS, started=started)
    sample.grow(STEPS // 2 if reward is None else STEPS - 1)
    if reward is None:
        sample.say("running")
        return
    sample.step = STEPS
    line = {"v": 1, "step": STEPS, "attempt": 1, "t": started + STEPS * 14}
    jsonl.append(sample.run.train_log, {**line, "metrics": {"val/reward": reward}})
    if job.arm == FAILED:
        sample.say("failed", ended=started + STEPS * 14, reason="exit code 1 at step 20 of 20")
    else:
        sample.say("finished", ended=started + STEPS * 14)
