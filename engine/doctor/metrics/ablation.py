"""Rule for two runs that should differ and do not: an ablation that changed nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
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
"""Beginnings of keys about how long, how often, where to and with how much memory: with them the
common steps may be equal."""

SAME_NUMBERS = Symptom(
    id="ablation_no_effect.same_numbers",
    title="Both runs logged identical metrics",
    cause="{metrics} are equal to the last digit in all {steps} common steps, although the configs "
    "differ in {changed}: the change never reached the training.",
    shape="every reward and loss that both runs logged is the same number in every common step, at "
    "least 3 of them",
    ruled_out="runs without common steps; metrics that are constant in both; runs that differ only "
    "in their length, in what is saved and logged, or in what costs memory and changes no number "
    "(recomputed activations)",
    remedies=lambda _: (
        Remedy("Compare the effective values in both manifests, with their origin"),
        Remedy(
            "If the change concerns the data, prepare it again (reward_config.use_contrastive is "
            "decided there)"
        ),
    ),
    source="grubrics history: a weight set in the environment that the config file overwrote; a "
    "data flag that only the preparation reads",
)
SAME_RECIPE = Symptom(
    id="ablation_no_effect.same_recipe",
    severity=Severity.WARNING,
    title="Both runs had the same effective config",
    cause="No effective value differs between the two runs except names: they are repetitions, and "
    "differences between their curves are chance.",
    shape="configs without an effective difference",
    ruled_out="runs whose config is unknown",
    remedies=lambda _: (
        Remedy("Check that the override has the right key, and whether something overrides it"),
    ),
    confidence=0.9,
    source="grubrics history: an ablation equal to its baseline",
)


def ablation_findings(
    first: Columns,
    second: Columns,
    first_recipe: Mapping[str, Any],
    second_recipe: Mapping[str, Any],
) -> list[Finding]:
    """Whether a change between two runs had any effect; empty if it had, or if that is unknown.

    The recipes hold effective values by dotted key, not the overrides.
    """
    changed = _differences(first_recipe, second_recipe)
    same, steps = _identical(first, second)
    if first_recipe and second_recipe and not changed:
        return [SAME_RECIPE.finding(Case(), Evidence("no effective value differs"))]
    meant = [key for key in changed if not key.startswith(_OUTSIDE)]
    if same and (meant or not changed):
        return [
            SAME_NUMBERS.finding(
                Case(),
                Evidence("equal series", values={"metrics": len(same), "steps": steps}),
                metrics=", ".join(same),
                steps=steps,
                changed=", ".join(meant[:4]) if meant else "nothing that has an effect",
            )
        ]
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
