"""Rewards without spread: which side they lie on, what they cost, what is chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import WEIGHTS, alerts_of, columns, find


def flat(level: float) -> dict[str, Any]:
    return {"reward/mean": np.full(6, level), "reward/zero_std_share": np.ones(6)}


@pytest.mark.parametrize(
    ("level", "id"),
    [(1.3, "reward_zero_or_flat.all_right"), (-1.3, "reward_zero_or_flat.all_wrong")],
)
def test_equal_rewards_at_either_end_of_the_range_are_told_apart(level: float, id: str) -> None:
    context = RuleContext(WEIGHTS)
    assert [finding.id for finding in metric_findings(columns(flat(level)), context)] == [id]


def test_a_learned_task_is_an_alert_only_when_it_wastes_much_of_the_run() -> None:
    def curves(wasted: int) -> dict[str, Any]:
        share = np.concatenate([np.full(30, 0.1), np.ones(wasted)])
        return {"reward/mean": np.where(share == 1, 1.3, 0.5), "reward/zero_std_share": share}

    assert alerts_of(curves(10), config=WEIGHTS) == []
    assert alerts_of(curves(30), config=WEIGHTS) == ["reward_zero_or_flat.all_right"]


def advantages(*highest: float, **others: Any) -> dict[str, Any]:
    result = {
        "critic/advantages/max": highest,
        "critic/advantages/min": [-value for value in highest],
        "actor/pg_loss": [value / 100 for value in highest],
    }
    return {"reward/mean": np.linspace(0.2, 0.4, len(highest)), **result, **others}


def test_advantages_of_zero_show_groups_without_spread_though_the_groups_differ() -> None:
    ranges = {"reward/max": np.ones(6), "reward/min": np.zeros(6)}
    (one,) = metric_findings(columns(advantages(*[0.0] * 6, **ranges)))

    assert one.id == "reward_zero_or_flat.equal"
    assert "Since step 1, all rollouts of a group get the same reward (6 steps;" in one.cause


def test_advantages_tell_of_it_where_nothing_but_the_mean_reward_is_logged() -> None:
    (one,) = metric_findings(columns(advantages(0.9, 0.9, *[0.0] * 4)))

    assert "Since step 3, all rollouts of a group get the same reward (4 steps;" in one.cause


def test_advantages_that_come_back_or_are_of_two_steps_are_no_alert() -> None:
    assert alerts_of(advantages(*[0.0] * 6, 0.9)) == []
    assert alerts_of(advantages(0.0, 0.0)) == []


def test_advantages_that_round_to_zero_or_are_told_from_a_critic_are_no_alert() -> None:
    zeros = [0.0] * 6
    assert alerts_of(advantages(*zeros, **{"actor/pg_loss": [0.01] * 6})) == []
    assert alerts_of(advantages(*zeros, **{"critic/vf_loss": [0.2] * 6})) == []
    assert alerts_of(advantages(*zeros, **{"critic/advantages/max": [0.8] * 6})) == []


def test_equal_rewards_are_priced_in_rollouts_and_time() -> None:
    curves = {**flat(0.4), "timing_s/step": np.full(6, 120.0)}
    config = {"data.train_batch_size": 24, "actor_rollout_ref.rollout.n": 6}
    (one,) = metric_findings(columns(curves), RuleContext(config))
    assert "864 rollouts" in one.cause and "12 minutes" in one.cause


def test_spread_that_comes_back_is_no_alert() -> None:
    assert alerts_of({"reward/zero_std_share": [1, 1, 1, 1, 0.5, 0.25]}) == []


def test_steps_of_one_group_are_flat_by_chance_at_the_end_as_before() -> None:
    by_chance = [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1]
    assert alerts_of({"reward/zero_std_share": by_chance}) == []
    lasting = [*by_chance, *[1] * 20]
    assert alerts_of({"reward/zero_std_share": lasting}) == ["reward_zero_or_flat.equal"]


def test_groups_that_mostly_train_nothing_are_a_warning() -> None:
    assert alerts_of({"reward/zero_std_share": np.full(20, 0.9)}) == [
        "reward_zero_or_flat.few_groups_learn"
    ]


def test_groups_that_are_replaced_cost_time_and_no_learning() -> None:
    share = np.full(20, 0.9)
    curves = {"reward/zero_std_share": share, "groups/evicted_equal": np.full(20, 36.0)}
    assert alerts_of(curves) == ["reward_zero_or_flat.many_replaced"]


def test_a_part_of_the_reward_that_never_fires() -> None:
    curves = {"rewards/correct": np.linspace(0.2, 0.3, 9), "rewards/format": np.zeros(9)}
    assert alerts_of(curves) == ["reward_zero_or_flat.component_zero"]
    assert alerts_of({**curves, "rewards/format": np.full(9, 0.1)}) == []
    assert alerts_of({**curves, "rewards/format": curves["rewards/correct"]}) == []


def test_a_penalty_that_never_fires_is_what_one_hopes_for() -> None:
    curves = {"rewards/correct": np.linspace(0, 1, 9), "rewards/overlong_penalty": np.zeros(9)}
    assert alerts_of(curves) == []


@pytest.mark.parametrize("name", ["actor/kl_loss", "actor/distillation/loss"])
def test_a_run_that_is_taught_by_another_model_needs_no_reward(name: str) -> None:
    curves = {"reward/mean": np.zeros(20), "reward/max": np.zeros(20), "reward/min": np.zeros(20)}
    norm, distance = np.full(20, 0.9), np.linspace(2.4, 0.7, 20)
    assert alerts_of({**curves, "actor/grad_norm": norm}) == ["reward_zero_or_flat.all_wrong"]
    assert alerts_of({**curves, "actor/grad_norm": norm, name: distance}) == []
    assert alerts_of({**curves, "actor/grad_norm": 0 * norm, name: distance}) != []


def test_a_penalty_that_was_never_due_is_no_dead_part() -> None:
    parts = {"rewards/accuracy/mean": np.linspace(0.1, 0.6, 20)}
    assert alerts_of({**parts, "rewards/language_mixing/mean": np.zeros(20)}) == []
    assert alerts_of({**parts, "rewards/tagged/mean": np.zeros(20)}) == [
        "reward_zero_or_flat.component_zero"
    ]


def test_one_and_the_same_reward_for_every_prompt_points_at_the_judge() -> None:
    same = np.full(30, -0.3)
    curves = {"reward/mean": same, "reward/max": same, "reward/min": same}
    one = find(metric_findings(columns(curves)), "reward_zero_or_flat.one_number")
    assert "the judge" in one.fixes[0].title
    assert "-0.3" in one.cause


def test_one_reward_of_a_function_says_nothing_of_a_judge() -> None:
    same = np.ones(30)
    curves = {"reward/mean": same, "reward/std": 0 * same, "rewards/always/mean": same}
    one = find(metric_findings(columns(curves)), "reward_zero_or_flat.one_number")
    assert "judge" not in one.cause


def test_rewards_that_are_equal_in_groups_only_point_at_sampling() -> None:
    rewards = np.random.default_rng(3).uniform(0, 1, 30)
    curves = {"reward/mean": rewards, "reward/std": np.zeros(30)}
    (one,) = [x for x in metric_findings(columns(curves)) if x.category == "reward_zero_or_flat"]
    assert not any("judge" in fix.title for fix in one.fixes)


@pytest.mark.parametrize("level", [-0.3, -0.30000001192092896])
def test_a_judge_that_fails_in_the_middle_of_a_run_is_no_answer_that_is_wrong(level: float) -> None:
    same = np.where(np.arange(30) < 10, np.linspace(0.2, 0.5, 30), level)
    spread = np.where(np.arange(30) < 10, 0.5, 0.0)
    curves = {"reward/mean": same, "reward/max": same + spread, "reward/min": same - spread}
    one = metric_findings(columns(curves))[0]
    assert one.id == "reward_zero_or_flat.one_number"
    assert "judge" in one.fixes[0].title
    rule = {**curves, "reward/mean": np.where(np.arange(30) < 10, same, -1.0)}
    rule["reward/max"] = rule["reward/mean"] + spread
    rule["reward/min"] = rule["reward/mean"] - spread
    assert "reward_zero_or_flat.all_wrong" in alerts_of(rule)
