"""Symptoms that need more than one curve, or what is known besides, and what rules them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.doctor.metrics import MetricContext, Start, ablation_findings, metric_findings
from engine.doctor.metrics.limits import reward_range
from engine.doctor.metrics.run import figure
from tests.engine.doctor.metrics.curves import alarms, columns, find, healthy

WEIGHTS = {
    "reward_config.lambda_len": 0.1,
    "reward_config.lambda_info": 0.3,
    "reward_config.lambda_defense": 0.3,
    "reward_config.char_threshold": 3000,
    "data.max_response_length": 64,
}


def found(curves: dict[str, Any], **known: Any) -> list[str]:
    return alarms(metric_findings(columns(curves), MetricContext(**known)))


# Equal rewards: opposite cures


def flat(level: float) -> dict[str, Any]:
    return {"reward/mean": np.full(6, level), "reward/zero_std_share": np.ones(6)}


@pytest.mark.parametrize(
    ("level", "id"),
    [(1.3, "reward_zero_or_flat.all_right"), (-1.3, "reward_zero_or_flat.all_wrong")],
)
def test_equal_rewards_at_either_end_of_the_range_are_told_apart(level: float, id: str) -> None:
    context = MetricContext(reward_range=(-1.3, 1.3))
    assert [one.id for one in metric_findings(columns(flat(level)), context)] == [id]


def test_a_learned_task_is_an_alarm_only_when_it_wastes_much_of_the_run() -> None:
    def curves(wasted: int) -> dict[str, Any]:
        share = np.concatenate([np.full(30, 0.1), np.ones(wasted)])
        return {"reward/mean": np.where(share == 1, 1.3, 0.5), "reward/zero_std_share": share}

    assert found(curves(10), reward_range=(-1.3, 1.3)) == []
    assert found(curves(30), reward_range=(-1.3, 1.3)) == ["reward_zero_or_flat.all_right"]


def test_equal_rewards_are_priced_in_rollouts_and_time() -> None:
    curves = {**flat(0.4), "timing_s/step": np.full(6, 120.0)}
    recipe = {"data.train_batch_size": 24, "actor_rollout_ref.rollout.n": 6}
    (one,) = metric_findings(columns(curves), MetricContext(recipe))
    assert "864 rollouts" in one.cause and "12 minutes" in one.cause


def test_spread_that_comes_back_is_no_alarm() -> None:
    assert found({"reward/zero_std_share": [1, 1, 1, 1, 0.5, 0.25]}) == []


def test_steps_of_one_group_are_flat_by_chance_at_the_end_as_before() -> None:
    by_chance = [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1]
    assert found({"reward/zero_std_share": by_chance}) == []
    lasting = [*by_chance, *[1] * 20]
    assert found({"reward/zero_std_share": lasting}) == ["reward_zero_or_flat.equal"]


def test_groups_that_mostly_train_nothing_are_a_warning() -> None:
    assert found({"reward/zero_std_share": np.full(20, 0.9)}) == [
        "reward_zero_or_flat.few_groups_learn"
    ]


def test_a_part_of_the_reward_that_never_fires() -> None:
    curves = {"rewards/correct": np.linspace(0.2, 0.3, 9), "rewards/format": np.zeros(9)}
    assert found(curves) == ["reward_zero_or_flat.component_zero"]
    assert found({**curves, "rewards/format": np.full(9, 0.1)}) == []
    assert found({**curves, "rewards/format": curves["rewards/correct"]}) == []


def test_a_penalty_that_never_fires_is_what_one_hopes_for() -> None:
    curves = {"rewards/correct": np.linspace(0, 1, 9), "rewards/overlong_penalty": np.zeros(9)}
    assert found(curves) == []


# Nothing moves


def test_dpo_that_stays_at_ln_2_with_margins_of_zero() -> None:
    curves = {"train/loss": np.full(8, 0.6931), "rewards/margins": np.zeros(8)}
    assert found(curves) == ["loss_flat_no_learning"]


def test_dpo_that_begins_at_ln_2_and_moves() -> None:
    loss = np.concatenate([np.full(3, 0.6931), np.linspace(0.69, 0.5, 8)])
    assert found({"train/loss": loss, "rewards/margins": np.linspace(0, 1, 11)}) == []


def test_a_constant_loss_without_gradient() -> None:
    curves = {"train/loss": np.full(8, 2.31), "train/grad_norm": np.zeros(8)}
    assert found(curves) == ["loss_flat_no_learning"]
    assert found({**curves, "train/grad_norm": np.full(8, 0.4)}) == []


def test_a_loss_of_zero_shows_sooner() -> None:
    assert found({"train/loss": [0.0] * 3, "train/grad_norm": [0.0] * 3}) == [
        "loss_flat_no_learning"
    ]


def test_a_loss_of_zero_with_gradients_that_are_no_numbers_is_lost() -> None:
    curves = {"train/loss": [0.0] * 4, "train/grad_norm": [np.nan] * 4}
    assert found(curves) == ["loss_nan"]


def test_gradients_in_the_thousands_from_the_start() -> None:
    assert found({"actor/grad_norm": np.full(8, 5000.0)}) == ["kl_or_grad_blowup.huge"]


def test_rewards_that_differ_without_a_gradient() -> None:
    curves = {"reward/std": np.full(8, 0.3), "actor/grad_norm": np.zeros(8)}
    assert found(curves) == ["loss_flat_no_learning.no_gradient"]


def test_a_learning_rate_of_zero() -> None:
    curves = {"actor/lr": np.zeros(12), "actor/grad_norm": np.linspace(0.1234, 0.5678, 12)}
    assert found(curves) == ["loss_flat_no_learning.rate_zero"]


def test_a_log_of_three_decimals_says_nothing_of_a_small_rate() -> None:
    curves = {"actor/lr": np.zeros(12), "actor/grad_norm": np.round(np.linspace(0.1, 0.5, 12), 3)}
    assert found(curves) == []


def test_a_warm_up_longer_than_the_run() -> None:
    recipe = {
        "actor_rollout_ref.actor.optim.lr": 1e-5,
        "actor_rollout_ref.actor.optim.lr_warmup_steps": 500,
    }
    rising = 1e-5 * np.arange(1, 61) / 500
    context = MetricContext(recipe, "grpo", total_steps=60)
    (one,) = metric_findings(columns({"actor/lr": rising}), context)
    (change,) = one.remedies[0].changes
    assert (one.id, change.after) == ("loss_flat_no_learning.never_warm", 6)


# Not numbers


def test_a_loss_that_there_is_only_after_some_steps_is_none() -> None:
    """A replay buffer that fills first: nothing was updated with it."""
    loss = np.concatenate([np.full(15, np.nan), np.linspace(0.9, 0.4, 20)])
    assert found({"train/loss": loss}) == []


def test_a_gradient_that_overflows_while_the_scaler_finds_its_scale() -> None:
    norm = np.concatenate([[np.nan, np.nan], np.full(20, 0.4)])
    assert found({"actor/grad_norm": norm, "train/loss": np.linspace(2, 1, 22)}) == []


def test_three_spikes_of_the_gradient_are_many_in_a_short_run_and_few_in_a_long_one() -> None:
    def spiky(steps: int) -> list[str]:
        norm = np.full(steps, 0.5)
        norm[[20, 50, 80]] = 60.0
        return found({"actor/grad_norm": norm})

    assert spiky(100) == ["kl_or_grad_blowup.spikes"]
    assert spiky(10_000) == []


def test_a_lone_step_without_a_loss_is_no_alarm() -> None:
    loss = np.linspace(2, 1, 22)
    loss[7] = np.nan
    assert found({"train/loss": loss}) == []


def test_rewards_that_are_missing_because_the_judge_failed_are_not_the_functions_fault() -> None:
    curves = {"reward/mean": np.full(4, np.nan), "reward/failed_share": np.ones(4)}
    assert found(curves) == ["judge_timeout_or_connection.samples_failed"]


# One answer a step


def answers(seed: int, right: list[float]) -> Any:
    """0 or 2 for each step, right as often as the shares of equal parts say."""
    rng = np.random.default_rng(seed)
    shares = np.repeat(right, 100)
    return 2.0 * (rng.random(shares.size) < shares)


@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_learns_to_answer_and_then_forgets(seed: int) -> None:
    curves = {"reward/mean": answers(seed, [0.2, 0.6, 0.9, 0.3, 0.2])}
    onset = find(metric_findings(columns(curves)), "collapse_entropy_or_length.reward").onset_step
    assert onset is not None and abs(onset - 301) <= 15


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("right", [[0.1] * 4, [0.5] * 4, [0.98] * 4, [0.1, 0.4, 0.7, 0.9]])
def test_answers_that_are_right_by_chance_are_no_alarm(seed: int, right: list[float]) -> None:
    assert found({"reward/mean": answers(seed, right)}) == []


def test_entropy_that_fades_slowly_is_a_warning_when_nothing_is_left() -> None:
    fading = 0.5 * np.exp(-np.arange(600) / 100)
    findings = metric_findings(columns({"actor/entropy": fading}))
    assert [(one.id, one.severity) for one in findings] == [
        ("collapse_entropy_or_length.entropy", "warning")
    ]
    assert found({"actor/entropy": fading[:200]}) == []


def test_lengths_at_the_cap_in_every_step() -> None:
    assert found({"tokens_out": np.full(30, 64.0)}) == ["collapse_entropy_or_length.cap_from_start"]
    assert found({"tokens_out": np.full(15, 64.0)}) == []


@pytest.mark.parametrize("tokens", [0.0, 2.0])
def test_labels_of_one_length_are_not_cut(tokens: float) -> None:
    assert found({"tokens_out": np.full(30, tokens)}) == []


def test_lengths_that_reach_the_longest_and_stay_there() -> None:
    rng = np.random.default_rng(2)
    lengths = np.concatenate([rng.integers(10, 30, 40).astype(float), np.full(12, 64.0)])
    one = find(metric_findings(columns({"tokens_out": lengths})), "collapse")
    assert (one.id, one.onset_step) == ("collapse_entropy_or_length.length_cap", 41)


def test_a_policy_loss_that_doubles_warns_beside_the_collapse_that_follows() -> None:
    curves = {
        "actor/loss": [6.8, 11, 19, 57, 215, 90, *[0.0] * 19],
        "tokens_out": [9.0, 9, 8, 9, 9, 6, *[1.0] * 19],
    }
    assert found(curves) == ["collapse_entropy_or_length.length", "kl_or_grad_blowup.policy_loss"]


# Inputs and limits


def test_prompts_of_three_tokens_are_empty() -> None:
    assert found({"prompt_length/max": [3.0, 3.0, 3.0]}) == ["data_missing_or_schema.empty_prompt"]
    assert found({"prompt_length/max": [25.0, 25.0]}) == []
    assert found({"prompt_length/max": [3.0, 7.0, 4.0]}) == []


def test_a_reward_beyond_what_the_formula_allows() -> None:
    limits = reward_range(WEIGHTS)
    assert limits == (-1.3, 1.3)
    top = [1.3, 1.3, 14.0, 1.3]
    assert found({"reward/max": top}, reward_range=limits) == ["reward_function_error.out_of_range"]
    assert found({"reward/max": [1.3] * 4, "reward/min": [-1.3] * 4}, reward_range=limits) == []


def test_a_single_reward_far_from_all_others_where_no_limit_is_known() -> None:
    bottom = np.full(30, -0.1)
    bottom[12] = -10.5
    curves = {"reward/max": np.full(30, 1.95), "reward/min": bottom}
    (one,) = metric_findings(columns(curves))
    assert (one.id, one.onset_step) == ("reward_function_error.outlier", 13)


def test_another_reward_function_has_no_known_limits() -> None:
    assert reward_range({**WEIGHTS, "reward.custom_reward_function.path": "mine.py"}) is None
    assert reward_range({}) is None


# The run's course


def test_epochs_that_end_the_run_early_come_with_the_epochs_it_needs() -> None:
    context = MetricContext({"trainer.total_epochs": 30}, total_steps=90, asked_steps=2000)
    (one,) = metric_findings(columns({"reward/mean": [0.1]}), context)
    (change,) = one.remedies[0].changes
    assert (one.id, change.key, change.after) == (
        "config_error.epochs_cap",
        "trainer.total_epochs",
        667,
    )


@pytest.mark.parametrize(
    ("asked", "ids"),
    [(False, ["checkpoint_corrupt_or_mismatch.resume_unasked"]), (True, []), (None, [])],
)
def test_going_on_from_a_leftover_checkpoint(asked: bool | None, ids: list[str]) -> None:
    start = Start(1, first_step=6, resumed_from=5, asked=asked)
    assert found({"reward/mean": [0.1]}, starts=(start,)) == ids


def test_a_fall_where_an_attempt_begins_points_at_its_checkpoint() -> None:
    reward = np.concatenate([np.full(30, 0.7), np.full(30, 0.1)]) + 0.01 * np.sin(np.arange(60))
    starts = (Start(1, 1), Start(2, 31, 30, asked=True))
    findings = metric_findings(columns({"reward/mean": reward}), MetricContext(starts=starts))
    assert "Attempt 2 begins there" in find(findings, "collapse_entropy_or_length.reward").cause


def test_overfitting_is_dated_at_the_best_validation() -> None:
    steps = np.arange(200)
    validation = np.full(200, np.nan)
    validation[19::20] = [2.0, 1.6, 1.4, 1.5, 1.65, 1.8, 1.9, 2.0, 2.1, 2.2]
    curves = {"train/loss": 2 * np.exp(-steps / 60) + 0.02, "val/loss": validation}
    one = find(metric_findings(columns(curves)), "overfitting")
    assert one.onset_step == 60


# Speed


def test_the_phase_that_grew_is_named() -> None:
    slow = np.where(np.arange(40) < 25, 1.0, 30.0)
    curves = {
        "timing_s/step": 10 + slow,
        "timing_s/gen": np.full(40, 5.0),
        "reward_total_duration_s": slow,
        "judge_api_latency_s": slow,
        "semaphore_wait_s": np.full(40, 0.01),
    }
    findings = metric_findings(columns(curves))
    assert find(findings, "slow_step.judge").onset_step == 26


def test_a_wait_longer_than_the_call_is_the_queues() -> None:
    curves = {
        "timing_s/step": np.full(30, 60.0),
        "reward_total_duration_s": np.full(30, 50.0),
        "judge_api_latency_s": np.full(30, 2.0),
        "semaphore_wait_s": np.full(30, 20.0),
    }
    context = MetricContext({"judge.max_concurrent": 10})
    (one,) = metric_findings(columns({**curves, "judge/calls": np.full(30, 96.0)}), context)
    assert one.id == "slow_step.judge_queue"
    # 96 calls of 2 s in the 10 s that the rest of a step takes: 19.2 at once
    assert one.remedies[0].changes[0].after == 20
    (unknown,) = metric_findings(columns(curves), context)
    assert unknown.remedies[0].changes == ()


def test_no_more_calls_are_proposed_than_the_server_lets_through() -> None:
    curves = {
        "timing_s/step": np.full(30, 60.0),
        "reward_total_duration_s": np.full(30, 50.0),
        "judge_api_latency_s": np.full(30, 2.0),
        "semaphore_wait_s": np.full(30, 20.0),
        "judge/calls": np.full(30, 100.0),
        "judge/rate_limits": np.full(30, 40.0),
    }
    context = MetricContext({"judge.max_concurrent": 10})
    (one,) = metric_findings(columns(curves), context)
    assert one.remedies[0].changes == ()
    assert "about 6 of 10 at once get through" in one.remedies[0].title


def test_a_limit_that_is_no_bottleneck_is_not_raised() -> None:
    curves = {
        "timing_s/step": np.full(30, 20.0),
        "reward_total_duration_s": np.full(30, 18.0),
        "judge_api_latency_s": np.full(30, 15.0),
        "judge/calls": np.full(30, 8.0),
    }
    (one,) = metric_findings(columns(curves), MetricContext({"judge.max_concurrent": 10}))
    assert one.id == "slow_step.judge"
    assert [cure.changes for cure in one.remedies] == [(), ()]


def test_a_judge_that_takes_most_of_every_step() -> None:
    curves = {
        "timing_s/step": np.full(5, 20.0),
        "reward_total_duration_s": np.full(5, 18.0),
        "judge_api_latency_s": np.full(5, 5.0),
    }
    assert found(curves) == ["slow_step.judge"]
    assert found({**curves, "reward_total_duration_s": np.full(5, 12.0)}) == []


def test_a_slow_first_step_is_information() -> None:
    (one,) = metric_findings(columns({"timing_s/step": [11.0, 0.8, 0.9, 0.8, 0.7, 0.8]}))
    assert (one.id, one.severity) == ("slow_step.warm_up", "info")


def test_saving_that_takes_a_large_share() -> None:
    saves = np.full(40, np.nan)
    saves[9::10] = 150.0
    steps = np.full(40, 40.0) + np.nan_to_num(saves)
    ids = found({"timing_s/step": steps, "timing_s/save_checkpoint": saves})
    assert ids == ["slow_step.saving"]


# Words


def test_three_figures_of_nearly_a_thousand_are_a_thousand() -> None:
    assert [figure(one) for one in (999.4, 999.7, 1e-6)] == ["999", "1,000", "1e-06"]


# The judge


def test_a_limit_of_time_that_nobody_knows_is_said_in_words() -> None:
    latency = np.concatenate([np.full(20, 1.0), np.full(10, 9.0)])
    (unknown,) = metric_findings(columns({"judge_api_latency_s": latency}))
    context = MetricContext({"judge.timeout_s": 60})
    (known,) = metric_findings(columns({"judge_api_latency_s": latency}), context)
    assert unknown.cause.endswith("the limit of a call is not known.")
    assert known.cause.endswith("the limit of a call is 60 s.")


# KL


@pytest.mark.parametrize(
    ("name", "other"),
    [("actor/kl_loss", "reference model"), ("actor/ppo_kl", "policy before an update")],
)
def test_a_kl_is_told_with_what_it_is_a_distance_to(name: str, other: str) -> None:
    kl = np.concatenate([np.full(20, 0.01), np.full(10, 3.0)])
    (one,) = metric_findings(columns({name: kl}))
    assert (one.id, other in one.cause) == ("kl_or_grad_blowup.kl", True)


# Two runs


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
    assert one.id == "ablation_no_effect.same_recipe"


def test_two_runs_that_differ() -> None:
    first, second = (columns({"reward/mean": healthy(n, 20)["reward/mean"]}) for n in (1, 2))
    assert ablation_findings(first, second, {"a": 1}, {"a": 2}) == []
    assert ablation_findings(first, second, {}, {}) == []


def test_a_repetition_is_no_ablation_whose_change_got_lost() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    (one,) = ablation_findings(run, run, {"a": 1}, {"a": 1})
    assert (one.id, one.severity) == ("ablation_no_effect.same_recipe", "warning")


def test_recomputed_activations_change_no_number() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    key = "actor_rollout_ref.model.enable_gradient_checkpointing"
    assert ablation_findings(run, run, {key: False}, {key: True}) == []


def test_a_longer_run_that_saves_more_often_may_have_the_same_numbers() -> None:
    run = columns({"reward/mean": healthy(1, 20)["reward/mean"]})
    first = {"trainer.total_training_steps": 20, "trainer.save_freq": 10}
    second = {"trainer.total_training_steps": 40, "trainer.save_freq": 5}
    assert ablation_findings(run, run, first, second) == []
