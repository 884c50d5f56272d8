"""Does the engine sample from the weights that were trained? The numbers are of real runs."""

from __future__ import annotations

from typing import Any

import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import columns

ID = "training_setup_error.weights_not_synced"
EXACT = {
    "actor_rollout_ref.rollout.dtype": "float32",
    "actor_rollout_ref.rollout.top_p": 1.0,
    "actor_rollout_ref.rollout.top_k": -1,
    "trainer.v1.trainer_mode": "sync",
}
ROUNDED = {**EXACT, "actor_rollout_ref.rollout.dtype": "bfloat16"}


def found(values: list[float], config: dict[str, Any]) -> list[tuple[str, int | None]]:
    curves = columns({"training/rollout_probs_diff_mean": values})
    findings = metric_findings(curves, RuleContext(config))
    assert all(finding.severity == "critical" for finding in findings)
    return [(finding.id, finding.onset_step) for finding in findings]


def test_a_sync_that_is_ignored_is_named_at_the_second_step() -> None:
    assert found([5e-7, 2.1e-3], EXACT) == [(ID, 2)]
    assert found([5e-7, 5e-7, 3e-4], EXACT) == [(ID, 3)]


def test_an_engine_that_began_from_other_weights_is_named_at_once() -> None:
    assert found([4e-3], EXACT) == [(ID, 1)]


def test_rounded_arithmetic_needs_more_and_longer() -> None:
    assert found([4e-3, 5e-3, 0.021, 0.025, 0.03], ROUNDED) == [(ID, 3)]
    assert found([4e-3, 5e-3, 0.06, 0.07], ROUNDED) == []


def test_what_top_p_explains_is_added_to_the_limit() -> None:
    cut = {**ROUNDED, "actor_rollout_ref.rollout.top_p": 0.95}
    assert found([4e-3, 5e-3, 0.06, 0.065, 0.068], cut) == []
    assert found([4e-3, 5e-3, 0.08, 0.09, 0.1], cut) == [(ID, 3)]


@pytest.mark.parametrize(
    ("values", "config"),
    [
        ([7.3e-8, 8.1e-8, 8.0e-8, 7.2e-8], EXACT),
        ([4.9e-7, 4.8e-7, 5.2e-7], EXACT),
        ([1e-9, 3e-6, 4e-6], EXACT),  # LoRA: the adapter is zero at first, merged weights round
        ([4e-3, 9e-3, 1.2e-2, 1.1e-2], ROUNDED),
        ([0.02, 0.03, 0.03, 0.02, 0.04], ROUNDED),
        ([5e-7, 2.1e-3, 5e-7], EXACT),
        ([4e-4, 0.02], {**EXACT, "actor_rollout_ref.rollout.top_p": 0.9}),
        ([4e-4, 0.2], {**EXACT, "actor_rollout_ref.rollout.top_k": 20}),
        ([4e-3, 0.03, 0.04, 0.05], {}),  # another program's log, which may cut or be asynchronous
        ([6.4e-3, 6.3e-3, 6.5e-3], ROUNDED),  # verl on GPUs, Qwen3 in bfloat16
        ([5e-7, 2.1e-3], {**EXACT, "trainer.v1.trainer_mode": "colocate_async"}),
        ([4e-3, 4.1e-3], {**EXACT, "actor_rollout_ref.rollout.top_p": 0.9}),
        ([5e-7, 2.1e-3], {**EXACT, "algorithm.rollout_correction.bypass_mode": True}),
    ],
)
def test_healthy_runs_are_silent(values: list[float], config: dict[str, Any]) -> None:
    assert found(values, config) == []
