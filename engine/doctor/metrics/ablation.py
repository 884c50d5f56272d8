"""Rule for two runs that should differ and do not: an ablation that changed nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.run.finding import Evidence, Finding
from engine.run.finding_kind import Case
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics
from engine.run.history.columns import Columns

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

KINDS = FindingKinds(__file__)


def ablation_findings(
    first: Columns,
    second: Columns,
    first_config: Mapping[str, Any],
    second_config: Mapping[str, Any],
) -> list[Finding]:
    """Find a change between two runs that had no effect; empty if it had one, or if unknown.

    The configs hold effective values by dotted key, not the overrides.
    """
    changed = sorted(
        key
        for key in (first_config.keys() | second_config.keys()) - _NAMES
        if first_config.get(key) != second_config.get(key)
    )
    same, steps = _find_identical(first, second)
    if first_config and second_config and not changed:
        return [
            KINDS["ablation_no_effect.same_config"].finding(
                Case(), Evidence("no effective value differs")
            )
        ]
    effective = [key for key in changed if not key.startswith(_WITHOUT_EFFECT)]
    if same and (effective or not changed):
        return [
            KINDS["ablation_no_effect.same_numbers"].finding(
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
