"""Two runs that should differ and do not: an ablation that changed nothing.

Shape: every reward and loss that both logged is the same number in every common step, at least 3
of them; or their recipes have no effective difference. Ruled out: runs with no common steps, and
metrics that are constant in both (they say nothing), and runs that differ only in their length, in
what is saved and logged, or in what costs memory and changes no number (recomputed activations).
Source: grubrics history (a weight set in the environment that the config file overwrote; a data
flag that only the preparation reads).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.history import metrics
from engine.history.columns import Columns

_STEPS = 3
_TELLING = (
    metrics.REWARD_MEAN,
    "actor/pg_loss",
    "actor/loss",
    "actor/grad_norm",
    "actor/entropy",
    metrics.TRAIN_LOSS,
)
_NAMES = frozenset(
    {
        "trainer.experiment_name",
        "trainer.project_name",
        "trainer.default_local_dir",
        "grubrics.description",
    }
)
_OUTSIDE = (
    "trainer.total_", "trainer.save_freq", "trainer.test_freq", "trainer.logger", "trainer.val_",
    "trainer.log_val", "trainer.rollout_data_dir", "trainer.max_", "trainer.resume_",
    "supervision.", "guard.", "judge.max_", "judge.timeout_s", "judge.usd_", "logging.",
    "training.output_dir",
    "training.run_name", "training.max_steps", "training.num_train_epochs", "training.save_steps",
    "training.logging_steps", "training.master_port", "training.gradient_checkpointing",
    "actor_rollout_ref.model.enable_gradient_checkpointing", "data.dataloader_num_workers",
    "actor_rollout_ref.rollout.gpu_memory_utilization", "ray_kwargs.",
)  # fmt: skip
"""Beginnings of keys that say how long, how often, where to and with how much memory: common steps
may well be equal."""


def ablation_findings(
    first: Columns,
    second: Columns,
    first_recipe: Mapping[str, Any],
    second_recipe: Mapping[str, Any],
) -> list[Finding]:
    """Whether a change between two runs had any effect; empty when it had, or nobody can tell.

    The recipes hold effective values by dotted key, not what was asked for.
    """
    changed = _differences(first_recipe, second_recipe)
    same, steps = _identical(first, second)
    if first_recipe and second_recipe and not changed:
        return [_same_recipe()]
    meant = [key for key in changed if not key.startswith(_OUTSIDE)]
    if same and (meant or not changed):
        return [_same_numbers(same, steps, meant)]
    return []


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    keys = (first.keys() | second.keys()) - _NAMES
    return sorted(key for key in keys if first.get(key) != second.get(key))


def _identical(first: Columns, second: Columns) -> tuple[list[str], int]:
    """The telling metrics that are equal in all common steps, where none differs."""
    same, steps = [], 0
    for name in _TELLING:
        left, right = first.get(name), second.get(name)
        common = np.intersect1d(left.steps, right.steps)
        if common.size < _STEPS:
            continue
        a, b = left.at(common), right.at(common)
        if not np.array_equal(a, b, equal_nan=True):
            return [], 0
        if np.ptp(np.nan_to_num(a)) > 0:
            same.append(name)
            steps = max(steps, int(common.size))
    return same, steps


def _same_numbers(same: list[str], steps: int, changed: list[str]) -> Finding:
    what = ", ".join(changed[:4]) if changed else "nothing that has an effect"
    return Finding(
        "ablation_no_effect.same_numbers",
        Severity.ERROR,
        "Both runs gave the very same numbers",
        f"{', '.join(same)} are equal to the last digit in all {steps} common steps, although "
        f"the recipes differ in {what}: what was changed never reached the training.",
        (Evidence("equal series", values={"metrics": len(same), "steps": steps}),),
        (
            Remedy("Compare the effective values that both manifests recorded, with their origin"),
            Remedy(
                "Prepare the data again if the change is one of data (reward_config."
                "use_contrastive is decided there)"
            ),
        ),
        source="grubrics history: environment overwritten by the config file",
    )


def _same_recipe() -> Finding:
    return Finding(
        "ablation_no_effect.same_recipe",
        Severity.WARNING,
        "Both runs had the same effective recipe",
        "No effective value differs between the two runs apart from names: they are repetitions, "
        "and what differs between their curves is chance.",
        (Evidence("no effective value differs"),),
        (Remedy("Check that the override has the right key, and what overrides it in turn"),),
        confidence=0.9,
        source="grubrics history: an ablation equal to its baseline",
    )
