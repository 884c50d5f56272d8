"""Two runs that should differ and do not."""

from __future__ import annotations

from engine.doctor.metrics import ablation_findings
from tests.engine.doctor.metrics.curves import columns, healthy


def test_an_ablation_with_the_very_same_numbers() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    key = "reward_config.lambda_info"
    (one,) = ablation_findings(run, run, {key: 0.3}, {key: 0.0})
    assert one.id == "ablation_no_effect.same_numbers"
    assert key in one.cause


def test_an_ablation_whose_override_had_no_effect() -> None:
    first, second = (columns({"reward/mean": healthy(n, 20)["reward/mean"]}) for n in (1, 2))
    same = {"reward_config.lambda_info": 0.3, "trainer.experiment_name": "a"}
    (one,) = ablation_findings(first, second, same, {**same, "trainer.experiment_name": "b"})
    assert one.id == "ablation_no_effect.same_config"


def test_two_runs_that_differ() -> None:
    first, second = (columns({"reward/mean": healthy(n, 20)["reward/mean"]}) for n in (1, 2))
    assert ablation_findings(first, second, {"a": 1}, {"a": 2}) == []
    assert ablation_findings(first, second, {}, {}) == []


def test_a_repetition_is_no_ablation_whose_change_got_lost() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    (one,) = ablation_findings(run, run, {"a": 1}, {"a": 1})
    assert (one.id, one.severity) == ("ablation_no_effect.same_config", "warning")


def test_recomputed_activations_change_no_number() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    key = "actor_rollout_ref.model.enable_gradient_checkpointing"
    assert ablation_findings(run, run, {key: False}, {key: True}) == []


def test_a_longer_run_that_saves_more_often_may_have_the_same_numbers() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    first = {"trainer.total_training_steps": 20, "trainer.save_freq": 10}
    second = {"trainer.total_training_steps": 40, "trainer.save_freq": 5}
    assert ablation_findings(run, run, first, second) == []
