"""Findings that need more than one curve, or what is known besides, and what rules them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, Start, metric_findings
from engine.doctor.metrics.logged_run import figure
from engine.run.finding import Severity
from engine.run.kinds import GRPO
from tests.engine.doctor.metrics.curves import alerts_of, columns, find


def test_dpo_that_stays_at_ln_2_with_margins_of_zero() -> None:
    curves = {"train/loss": np.full(8, 0.6931), "rewards/margins": np.zeros(8)}
    assert alerts_of(curves) == ["loss_flat_no_learning"]


def test_dpo_that_begins_at_ln_2_and_moves() -> None:
    loss = np.concatenate([np.full(3, 0.6931), np.linspace(0.69, 0.5, 8)])
    assert alerts_of({"train/loss": loss, "rewards/margins": np.linspace(0, 1, 11)}) == []


def test_a_constant_loss_without_gradient() -> None:
    curves = {"train/loss": np.full(8, 2.31), "train/grad_norm": np.zeros(8)}
    assert alerts_of(curves) == ["loss_flat_no_learning"]
    assert alerts_of({**curves, "train/grad_norm": np.full(8, 0.4)}) == []


def test_a_loss_that_is_one_number_in_many_steps_without_a_gradient_logged() -> None:
    (one,) = metric_findings(columns({"train/loss": np.full(10, 7.4183)}))
    assert (one.id, one.severity) == ("loss_flat_no_learning", Severity.WARNING)


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(np.full(9, 7.4183), id="few steps"),
        pytest.param(np.full(30, 7.4), id="few digits"),
        pytest.param(np.append(np.full(29, 7.4183), 7.4182), id="the last digit moves"),
        pytest.param(np.repeat([7.4183, 7.1032, 6.8471], 14), id="repeated until the next one"),
        pytest.param([*np.linspace(9, 8, 9), *np.full(10, 7.4183)], id="converged"),
    ],
)
def test_a_loss_that_may_be_another_one_below_its_digits(losses: list[float]) -> None:
    assert alerts_of({"train/loss": losses}) == []


def test_a_rate_that_warms_up_moves_little() -> None:
    curves = {"train/loss": np.full(15, 7.4183), "train/lr": np.linspace(1e-9, 1e-8, 15)}
    assert alerts_of(curves) == []


def test_a_bar_repeats_the_newest_loss() -> None:
    assert alerts_of({"train/loss": np.full(30, 7.4183)}, is_counted=True) == []


def test_a_loss_of_zero_shows_sooner() -> None:
    assert alerts_of({"train/loss": [0.0] * 3, "train/grad_norm": [0.0] * 3}) == [
        "loss_flat_no_learning"
    ]


def test_a_loss_of_zero_with_gradients_that_are_no_numbers_is_lost() -> None:
    curves = {"train/loss": [1.9, 0.0, 0.0, 0.0], "train/grad_norm": [0.8, *[np.nan] * 3]}
    assert alerts_of(curves) == ["loss_nan"]


def test_a_loss_of_zero_from_the_first_step_on_points_at_labels_that_are_masked() -> None:
    curves = {"train/loss": [0.0] * 8, "train/grad_norm": [np.nan] * 8}
    (one,) = metric_findings(columns(curves))
    text = " ".join(fix.title for fix in one.fixes)
    assert (one.id, "-100" in one.cause) == ("loss_nan.no_labels", True)
    assert "-100" in text and "fp16" in text and "checkpoint" not in text


def test_a_spike_before_a_nan_is_not_called_its_level() -> None:
    curves = {"train/loss": [*np.linspace(2.2, 1.8, 9), 412.7, np.nan, np.nan]}
    (one,) = metric_findings(columns(curves))
    assert "it was about 2.025, and 412.7 in the step before." in one.cause


def test_no_checkpoint_is_older_than_the_first_step() -> None:
    (one,) = metric_findings(columns({"train/loss": [np.nan] * 4}))
    assert [fix.title for fix in one.fixes if "checkpoint" in fix.title] == []
    assert one.fixes[0].title == "Restart from the initial model"


def test_gradients_in_the_thousands_from_the_start() -> None:
    assert alerts_of({"actor/grad_norm": np.full(8, 5000.0)}) == ["kl_or_grad_blowup.huge"]


@pytest.mark.parametrize(
    ("norms", "ids"),
    [
        ([780, 26, 142, 0, 3, 233, 1064, 0.1, 0, 309], ["kl_or_grad_blowup.huge"]),
        ([2000, 900, 500, 200, 90, 60, 50, 40, 30, 30], []),
    ],
)
def test_gradients_that_swing_to_a_thousand_and_those_that_fall_from_there(
    norms: list[float], ids: list[str]
) -> None:
    assert alerts_of({"actor/grad_norm": norms}) == ids


def test_rewards_that_differ_without_a_gradient() -> None:
    curves = {"reward/std": np.full(8, 0.3), "actor/grad_norm": np.zeros(8)}
    assert alerts_of(curves) == ["loss_flat_no_learning.no_gradient"]


@pytest.mark.parametrize(
    ("losses", "ids"),
    [
        ([12.5, 0, 0, 0, 0], ["loss_nan.vanished"]),
        ([0, 0, 0, 0], ["loss_nan.vanished"]),
        ([2.3, 1.1, 0.4, 0.12, 0, 0, 0, 0], []),
        ([1.5, 0, 0.9, 1.1, 1.0], []),
    ],
)
def test_a_loss_that_is_zero_from_the_start_or_at_once(losses: list[float], ids: list[str]) -> None:
    assert alerts_of({"train/loss": losses}) == ids


@pytest.mark.parametrize(
    ("held_out", "ids"),
    [
        ([1.2534] * 5, ["loss_flat_no_learning.validation"]),
        ([1.2534, 1.2534, 1.2534, 1.2534, 1.2533], []),
        ([1.31] * 5, []),
    ],
)
def test_a_validation_that_always_gives_one_number(held_out: list[float], ids: list[str]) -> None:
    falling = [2.0, 1.6, 1.5, 1.3, 1.2]
    assert alerts_of({"train/loss": falling, "val/loss": held_out}) == ids


def test_a_learning_rate_of_zero() -> None:
    curves = {"actor/lr": np.zeros(12), "actor/grad_norm": np.linspace(0.1234, 0.5678, 12)}
    assert alerts_of(curves) == ["loss_flat_no_learning.rate_zero"]


def test_a_log_of_three_decimals_says_nothing_of_a_small_rate() -> None:
    curves = {"actor/lr": np.zeros(12), "actor/grad_norm": np.round(np.linspace(0.1, 0.5, 12), 3)}
    assert alerts_of(curves) == []


def test_a_warm_up_longer_than_the_run() -> None:
    config = {
        "actor_rollout_ref.actor.optim.lr": 1e-5,
        "actor_rollout_ref.actor.optim.lr_warmup_steps": 500,
    }
    rising = 1e-5 * np.arange(1, 61) / 500
    context = RuleContext(config, GRPO, total_steps=60)
    (one,) = metric_findings(columns({"actor/lr": rising}), context)
    (change,) = one.fixes[0].changes
    assert (one.id, change.after) == ("loss_flat_no_learning.never_warm", 6)


def test_a_loss_that_there_is_only_after_some_steps_is_none() -> None:
    """A replay buffer that fills first: nothing was updated with it."""
    loss = np.concatenate([np.full(15, np.nan), np.linspace(0.9, 0.4, 20)])
    assert alerts_of({"train/loss": loss}) == []


def test_a_gradient_that_overflows_while_the_scaler_finds_its_scale() -> None:
    norm = np.concatenate([[np.nan, np.nan], np.full(20, 0.4)])
    assert alerts_of({"actor/grad_norm": norm, "train/loss": np.linspace(2, 1, 22)}) == []


def test_three_spikes_of_the_gradient_are_many_in_a_short_run_and_few_in_a_long_one() -> None:
    def spiky(steps: int) -> list[str]:
        norm = np.full(steps, 0.5)
        norm[[20, 50, 80]] = 60.0
        return alerts_of({"actor/grad_norm": norm})

    assert spiky(100) == ["kl_or_grad_blowup.spikes"]
    assert spiky(10_000) == []


def test_a_lone_step_without_a_loss_is_no_alert() -> None:
    loss = np.linspace(2, 1, 22)
    loss[7] = np.nan
    assert alerts_of({"train/loss": loss}) == []


def test_rewards_that_are_missing_because_the_judge_failed_are_not_the_functions_fault() -> None:
    curves = {"reward/mean": np.full(4, np.nan), "reward/failed_share": np.ones(4)}
    assert alerts_of(curves) == ["judge_timeout_or_connection.samples_failed"]


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
def test_answers_that_are_right_by_chance_are_no_alert(seed: int, right: list[float]) -> None:
    assert alerts_of({"reward/mean": answers(seed, right)}) == []


def test_one_step_with_a_higher_reward_is_no_level_that_was_lost() -> None:
    assert "collapse_entropy_or_length.reward" not in alerts_of(
        {"reward/mean": [*[0.2] * 5, 0.25, *[0.2] * 18]}
    )


def test_epochs_that_end_the_run_early_come_with_the_epochs_it_needs() -> None:
    context = RuleContext({"trainer.total_epochs": 30}, total_steps=90, asked_steps=2000)
    (one,) = metric_findings(columns({"reward/mean": [0.1]}), context)
    (change,) = one.fixes[0].changes
    assert (one.id, change.key, change.after) == (
        "config_error.epochs_cap",
        "trainer.total_epochs",
        667,
    )


def test_a_run_that_only_validates_lacks_no_epochs() -> None:
    context = RuleContext({"trainer.val_only": True}, total_steps=0, asked_steps=2000)
    assert metric_findings(columns({"val/reward": [0.1]}), context) == []


@pytest.mark.parametrize(
    ("asked", "ids"),
    [(False, ["checkpoint_corrupt_or_mismatch.resume_unasked"]), (True, []), (None, [])],
)
def test_going_on_from_an_earlier_checkpoint(asked: bool | None, ids: list[str]) -> None:
    start = Start(1, first_step=6, resumed_from=5, asked=asked)
    assert alerts_of({"reward/mean": [0.1]}, starts=(start,)) == ids


def test_a_fall_where_an_attempt_begins_points_at_its_checkpoint() -> None:
    reward = np.concatenate([np.full(30, 0.7), np.full(30, 0.1)]) + 0.01 * np.sin(np.arange(60))
    starts = (Start(1, 1), Start(2, 31, 30, asked=True))
    findings = metric_findings(columns({"reward/mean": reward}), RuleContext(starts=starts))
    assert "Attempt 2 begins there" in find(findings, "collapse_entropy_or_length.reward").cause


def test_overfitting_is_dated_at_the_best_validation() -> None:
    steps = np.arange(200)
    validation = np.full(200, np.nan)
    validation[19::20] = [2.0, 1.6, 1.4, 1.5, 1.65, 1.8, 1.9, 2.0, 2.1, 2.2]
    curves = {"train/loss": 2 * np.exp(-steps / 60) + 0.02, "val/loss": validation}
    one = find(metric_findings(columns(curves)), "overfitting")
    assert one.onset_step == 60
    assert "(1.4) and is 2.2 at the end" in one.cause
    assert one.evidence[0].text == "val/loss rose from 1.4 to 2.2"


def test_three_figures_of_nearly_a_thousand_are_a_thousand() -> None:
    assert [figure(one) for one in (999.4, 999.7, 1e-6)] == ["999", "1,000", "1e-06"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("actor/kl_loss", "reference model"), ("actor/ppo_kl", "policy before an update")],
)
def test_a_kl_is_told_with_what_it_is_a_distance_to(name: str, other: str) -> None:
    kl = np.concatenate([np.full(20, 0.01), np.full(10, 3.0)])
    (one,) = metric_findings(columns({name: kl}))
    assert (one.id, other in one.cause) == ("kl_or_grad_blowup.kl", True)


def test_the_kl_that_preference_training_logs_is_summed_over_sequences() -> None:
    kl = np.linspace(0.1, 3.0, 30)
    assert alerts_of({"actor/ppo_kl": kl}) == ["kl_or_grad_blowup.kl"]
    assert alerts_of({"actor/ppo_kl": kl, "logps/chosen": np.full(30, -200.0)}) == []
    (one,) = metric_findings(columns({"actor/ppo_kl": 100 * kl, "rewards/chosen": 0.1 * kl}))
    assert (one.id, "reference model" in one.cause) == ("kl_or_grad_blowup.kl", True)
