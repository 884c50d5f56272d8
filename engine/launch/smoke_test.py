"""The smoke test of a config: ten small steps, and four checks of their metrics."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.launch.launcher import LaunchPlan, free_name, plan
from engine.launch.shrink import Size, shrink_config
from engine.run.finding import Change
from engine.run.history import metrics
from engine.run.history.train_log import Step
from engine.run.host.environment import gpus
from engine.run.kinds import GRPO

STEPS, BATCH = 10, 2
FOLDER = Path("checkpoints/smoke-test")
POLICY_LOSS = "actor/pg_loss"
_EXPLODED = 10.0
"""A loss explodes above this multiple of its first values, and above 1."""


@dataclass(frozen=True)
class SmokeCheck:
    """One check, its result, and the numbers behind it."""

    id: str
    passed: bool
    text: str


def default_config() -> str:
    """The debug config if there is a GPU, else the tiny one."""
    return "verl_grpo_debug" if gpus() else "grpo_tiny"


def small_run(config: str, runs: Path) -> tuple[LaunchPlan, tuple[Change, ...]]:
    """Plan the ten steps; returns the plan and what it changes. Nothing is written."""
    loaded = load_config(config, ())
    if loaded.kind != GRPO:
        raise UsageError(f"{loaded.path}: the smoke test is for GRPO, not {loaded.kind.title}")
    name = free_name(runs, "smoke-test")
    size = Size(STEPS, BATCH, str(FOLDER / name), name)
    small, changes = shrink_config(loaded, size, os.environ)
    return plan(small, name, runs), changes


def check_steps(steps: Sequence[Step], *, judged: bool = True) -> tuple[SmokeCheck, ...]:
    """The four checks of a run's steps.

    ``judged`` says that a judge scores. Otherwise a reward function of the config does, and the
    last check is whether it scored every rollout.
    """
    rewards, losses = _values(steps, metrics.REWARD_MEAN), _values(steps, POLICY_LOSS)
    numbers = [value for value in rewards if value is not None]
    text = f"{len(numbers)} of {len(rewards)} steps have a number"
    if numbers:
        text += f", {min(numbers):+.3f} to {max(numbers):+.3f}"
    is_number = bool(numbers) and len(numbers) == len(rewards)
    reward = SmokeCheck("reward/mean is a number", is_number, text)

    # Rollouts of a group must differ in reward, in most steps: else there is no advantage.
    stds = [value for value in _values(steps, metrics.REWARD_STD) if value is not None]
    above = sum(value > 0 for value in stds)
    text = f"{above} of {len(steps)} steps have a std above 0"
    if stds:
        text += f", median {median(stds):.3f}"
    spread = SmokeCheck("reward/std is above 0", above * 2 > len(steps), text)

    sizes = [abs(value) for value in losses if value is not None]
    is_small, text = False, f"{len(sizes)} of {len(losses)} steps have a number"
    if sizes and len(sizes) == len(losses):
        limit = max(1.0, _EXPLODED * median(sizes[:3]))
        is_small, text = max(sizes) <= limit, f"largest {max(sizes):.3g}, allowed {limit:.3g}"
    loss = SmokeCheck("policy loss does not explode", is_small, text)
    return reward, spread, loss, _scored(steps, judged)


def _scored(steps: Sequence[Step], judged: bool) -> SmokeCheck:
    if judged:
        failures, calls = (
            math.fsum(value or 0.0 for value in _values(steps, name))
            for name in (metrics.JUDGE_PARSE_FAILURES, metrics.JUDGE_CALLS)
        )
        text = f"{failures:.0f} of {calls:.0f} judge replies could not be read"
        return SmokeCheck("every judge reply can be read", failures == 0 and calls > 0, text)
    shares = [share for share in _values(steps, metrics.FAILED_SHARE) if share is not None]
    failed = sum(share > 0 for share in shares)
    text = f"it failed for some rollouts in {failed} of {len(shares)} steps"
    name = "the config's reward function scores every rollout"
    return SmokeCheck(name, bool(shares) and not failed, text)


def _values(steps: Sequence[Step], name: str) -> list[float | None]:
    return [step.metrics.get(name) for step in steps]
