"""Four ticks, each with its numbers."""

from __future__ import annotations

from collections.abc import Mapping

from engine.launch.smoke_test import check_steps
from engine.run.history.train_log import Step

FINE: Mapping[str, float | None] = {
    "reward/mean": 0.2,
    "reward/std": 0.3,
    "actor/pg_loss": -0.01,
    "judge/calls": 8.0,
    "judge/parse_failures": 0.0,
}


def answers(*changes: Mapping[str, float | None]) -> dict[str, bool]:
    """Ten steps; the last ones are changed."""
    every: list[Mapping[str, float | None]] = [*[{}] * (10 - len(changes)), *changes]
    steps = [Step(n, 1, 0.0, {**FINE, **change}) for n, change in enumerate(every, 1)]
    return {check.id: check.passed for check in check_steps(steps)}


def missing(*changes: Mapping[str, float | None]) -> list[str]:
    return [name for name, passed in answers(*changes).items() if not passed]


def test_a_sound_run_gets_all_four() -> None:
    assert len(answers()) == 4
    assert missing() == []


def test_a_reward_that_is_not_a_number_fails_the_first_check() -> None:
    assert missing({"reward/mean": None}) == ["reward/mean is a number"]


def test_most_zero_std_steps_fail_but_one_does_not() -> None:
    flat = {"reward/std": 0.0}
    assert missing(flat) == []
    assert missing(*[flat] * 6) == ["reward/std is above 0"]


def test_a_loss_that_grows_out_of_hand_or_is_nan_costs_the_third() -> None:
    assert missing({"actor/pg_loss": -40.0}) == ["policy loss does not explode"]
    assert missing({"actor/pg_loss": None}) == ["policy loss does not explode"]
    assert missing({"actor/pg_loss": 0.4}) == []


def test_an_unparsed_judge_reply_fails_the_fourth_check() -> None:
    assert missing({"judge/parse_failures": 1.0}) == ["every judge reply can be read"]


def test_a_custom_reward_function_has_no_judge_and_must_score_every_rollout() -> None:
    def fourth(failed_share: float) -> bool:
        own = {**FINE, "judge/calls": 0.0, "reward/failed_share": failed_share}
        return check_steps([Step(1, 1, 0.0, own)], judged=False)[3].passed

    assert fourth(0.0)
    assert not fourth(0.25)


def test_without_a_step_there_is_no_passed_check() -> None:
    assert not any(check.passed for check in check_steps([]))


def test_the_checks_report_their_numbers() -> None:
    texts = {check.id: check.text for check in check_steps([Step(1, 1, 0.0, FINE)])}
    assert texts["reward/mean is a number"] == "1 of 1 steps have a number, +0.200 to +0.200"
    assert texts["every judge reply can be read"] == "0 of 8 judge replies could not be read"
