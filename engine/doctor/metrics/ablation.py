"""Rule for two runs that should differ and do not: an ablation that changed nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.config.frozen import decides_training
from engine.run.finding import Evidence, Finding
from engine.run.finding_kind import Case
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics
from engine.run.history.columns import Columns
from engine.run.kinds import KINDS as KINDS_OF_RUNS
from engine.run.kinds import SFT
from engine.run.trainer_settings import key_of

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
    key
    for kind in KINDS_OF_RUNS.values()
    for key in (kind.run_name_key, kind.project_key, kind.checkpoint_key, "grubrics.description")
)
_SAME_STEPS = (
    "trainer.total_", "training.max_steps", "training.num_train_epochs", "training.run_name",
    "judge.max_tokens", key_of("rollout_memory"), key_of("checkpointing"),
    key_of("checkpointing", SFT.name),
)  # fmt: skip
"""Prefixes of keys that decide what is trained, and leave the steps that two runs share equal: of
duration and of memory."""

KINDS = FindingKinds(__file__)


def ablation_findings(
    first: Columns,
    second: Columns,
    first_config: Mapping[str, object],
    second_config: Mapping[str, object],
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
    effective = [
        key for key in changed if decides_training(key) and not key.startswith(_SAME_STEPS)
    ]
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
