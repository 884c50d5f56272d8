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
_COMPARED = (
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
_WITHOUT_EFFECT = (
    "trainer.total_", "trainer.save_freq", "trainer.test_freq", "trainer.logger", "trainer.val_",
    "trainer.log_val", "trainer.rollout_data_dir", "trainer.max_", "trainer.resume_",
    "supervision.", "guard.", "judge.max_", "judge.timeout_s", "judge.usd_", "logging.",
    "training.output_dir",
    "training.run_name", "training.max_steps", "training.num_train_epochs", "training.save_steps",
    "training.logging_steps", "training.master_port", "training.gradient_checkpointing",
    "actor_rollout_ref.model.enable_gradient_checkpointing", "data.dataloader_num_workers",
    "actor_rollout_ref.rollout.gpu_memory_utilization", "ray_kwargs.",
)  # fmt: skip
"""Prefixes of keys that leave common steps equal: duration, intervals, output paths and memory."""

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
    """Find a change between two runs that had no effect; empty if it had one, or if unknown.

    The recipes hold effective values by dotted key, not the overrides.
    """
    changed = sorted(
        key
        for key in (first_recipe.keys() | second_recipe.keys()) - _NAMES
        if first_recipe.get(key) != second_recipe.get(key)
    )
    same, steps = _find_identical(first, second)
    if first_recipe and second_recipe and not changed:
        return [SAME_RECIPE.finding(Case(), Evidence("no effective value differs"))]
    effective = [key for key in changed if not key.startswith(_WITHOUT_EFFECT)]
    if same and (effective or not changed):
        return [
            SAME_NUMBERS.finding(
                Case(),
                Evidence("equal series", values={"metrics": len(same), "steps": steps}),
                metrics=", ".join(same),
                steps=steps,
                changed=", ".join(effective[:4]) if effective else "nothing that has an effect",
            )
        ]
    return []


def _find_identical(first: Columns, second: Columns) -> tuple[list[str], int]:
    """Return the metrics with equal values in all common steps, and the number of those steps.

    Empty if any compared metric differs. Metrics that never change are left out.
    """
    same, steps = [], 0
    for name in _COMPARED:
        left, right = first.get(name), second.get(name)
        common = np.intersect1d(left.steps, right.steps)
        if common.size < _STEPS:
            continue
        values = left.at(common)
        if not np.array_equal(values, right.at(common), equal_nan=True):
            return [], 0
        if np.ptp(np.nan_to_num(values)) > 0:
            same.append(name)
            steps = max(steps, int(common.size))
    return same, steps
