"""Telling a stall from a slow step."""

from __future__ import annotations

import pytest

from engine.supervise.stall import StallWatch, Supervision
from tests.manifests import make_manifest


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watch(step_s: float, steps: int = 10) -> tuple[StallWatch, Clock]:
    clock = Clock()
    stall = StallWatch(Supervision(stall_factor=8, stall_floor_s=60), clock)
    for _ in range(steps):
        clock.now += step_s
        stall.step()
    return stall, clock


def test_silence_of_many_median_steps_is_a_stall() -> None:
    stall, clock = watch(step_s=75)
    clock.now += 8 * 75 + 1
    assert stall.complaint() == "no step for 601 s; the median step takes 75 s"


def test_a_long_save_is_not_a_stall() -> None:
    stall, clock = watch(step_s=75)
    clock.now += 75 + 185
    assert stall.complaint() is None


def test_quick_steps_get_the_floor() -> None:
    stall, clock = watch(step_s=0.5)
    clock.now += 59
    assert stall.complaint() is None
    clock.now += 2
    assert stall.complaint() is not None


def test_a_long_step_whose_rollouts_are_being_scored_is_not_a_stall() -> None:
    stall, clock = watch(step_s=1)
    for _ in range(10):
        clock.now += 50
        stall.progress()
    assert stall.complaint() is None
    clock.now += 61
    assert stall.complaint() == "no step for 561 s; the median step takes 1 s"


def test_a_start_may_take_its_time_but_not_for_ever() -> None:
    stall, clock = watch(step_s=1, steps=0)
    clock.now += 1800
    assert stall.complaint() is None
    clock.now += 1
    assert stall.complaint() == "no first step after 1801 s"


def test_a_run_that_hangs_after_its_first_step_is_stalled() -> None:
    stall, clock = watch(step_s=1, steps=1)
    clock.now += 1801
    assert stall.complaint() == "no second step for 1801 s"


@pytest.mark.parametrize(("steps", "said"), [(0, "no first step after"), (1, "no second step for")])
def test_a_stopped_process_is_a_stall_after_the_floor_though_no_step_time_is_known(
    steps: int, said: str
) -> None:
    stall, clock = watch(step_s=1, steps=steps)
    stall.see_stopped([17])
    clock.now += 60
    stall.see_stopped([17])
    assert stall.complaint() is None
    clock.now += 1
    assert stall.complaint() == f"{said} 61 s"


def test_a_stopped_process_is_a_stall_after_the_floor_though_steps_take_longer() -> None:
    stall, clock = watch(step_s=600)
    stall.see_stopped([17])
    clock.now += 61
    assert stall.complaint() == "no step for 61 s; the median step takes 600 s"


def test_a_process_that_was_continued_in_time_is_not_a_stall() -> None:
    stall, clock = watch(step_s=600)
    for pids in ([17], [], [17]):
        stall.see_stopped(pids)
        clock.now += 40
    assert stall.complaint() is None


def test_a_run_that_was_continued_gets_the_time_of_a_whole_step_again() -> None:
    stall, clock = watch(step_s=75)
    clock.now += 590
    stall.continued()
    clock.now += 599
    assert stall.complaint() is None
    clock.now += 2
    assert stall.complaint() is not None


def test_steps_that_come_though_a_process_is_stopped_are_no_stall() -> None:
    stall, clock = watch(step_s=10, steps=0)
    for _ in range(20):
        stall.see_stopped([17])
        clock.now += 10
        stall.step()
    assert stall.complaint() is None


def test_waiting_for_a_hanging_custom_reward_is_not_a_stall() -> None:
    keys = {"reward.custom_reward_function.path": "rw.py", "grubrics.reward_timeout_s": 120.0}
    config = {key: {"value": value} for key, value in keys.items()}
    assert Supervision.of(make_manifest(config=config)).stall_floor_s == 240.0
    config["reward.custom_reward_function.path"] = {"value": None}
    assert Supervision.of(make_manifest(config=config)).stall_floor_s == 60.0
