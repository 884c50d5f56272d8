"""Schedules of temperature and length: values, keys, and what they do not go with."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.config.compose import LENGTH_SCHEDULE, TEMPERATURE_SCHEDULE, verl_config
from engine.config.load import Config, load_config
from engine.config.schedule import (
    LENGTH,
    TEMPERATURE,
    Schedule,
    find_conflicts,
    find_schedule,
    require_followed,
    rollout_temperature,
)
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

AFLOW = (
    f"{TEMPERATURE_SCHEDULE}.initial=0.5",
    f"{TEMPERATURE_SCHEDULE}.final=0.15",
    f"{TEMPERATURE_SCHEDULE}.steps=150",
)
SHORTER = (
    f"{LENGTH_SCHEDULE}.initial=64",
    f"{LENGTH_SCHEDULE}.final=30",
    f"{LENGTH_SCHEDULE}.steps=3",
)
TEMPERATURES = st.floats(min_value=0.01, max_value=2.0)


def config(*overrides: str) -> Config:
    return load_config(str(CONFIGS / "grpo_tiny.yaml"), overrides, {})


@pytest.mark.row("A09")
@pytest.mark.parametrize(
    ("step", "temperature"), [(1, 0.4977), (2, 0.4953), (75, 0.325), (149, 0.1523), (150, 0.15)]
)
def test_the_temperature_falls_linearly_to_its_end(step: int, temperature: float) -> None:
    schedule = find_schedule(config(*AFLOW).get, TEMPERATURE)
    assert schedule is not None
    assert schedule.at(step) == pytest.approx(temperature, abs=5e-5)


@given(TEMPERATURES, TEMPERATURES, st.integers(1, 500))
def test_a_schedule_is_monotone_between_its_ends_and_stays_at_the_final_one(
    initial: float, final: float, steps: int
) -> None:
    schedule = Schedule(initial, final, steps)
    course = [schedule.at(step) for step in range(steps + 1)]
    assert course[-1] == schedule.at(steps + 1000) == final
    assert course[0] == initial
    sign = 1 if final >= initial else -1
    assert all(sign * (after - before) >= 0 for before, after in pairwise(course))


def test_a_length_is_a_whole_number_of_tokens() -> None:
    schedule = find_schedule(config(*SHORTER).get, LENGTH)
    assert schedule is not None
    assert [schedule.at(step) for step in (1, 2, 3, 4)] == [53, 41, 30, 30]
    assert str(schedule) == "64 -> 30 over 3 steps"


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 200))
def test_a_length_goes_monotonously_from_one_end_to_the_other(
    initial: int, final: int, steps: int
) -> None:
    schedule = Schedule(initial, final, steps, LENGTH)
    course = [schedule.at(step) for step in range(steps + 1)]
    assert (course[0], course[-1]) == (initial, final)
    assert course == sorted(course, reverse=final < initial)


def test_a_length_above_the_longest_response_is_refused() -> None:
    longer = (*SHORTER, f"{LENGTH_SCHEDULE}.final=100")
    (conflict,) = find_conflicts(config(*longer))
    assert conflict.fix == "data.max_response_length=100"
    require_followed(config(*longer, conflict.fix))


def test_an_asynchronous_run_may_change_its_length() -> None:
    require_followed(config(*SHORTER, "trainer.v1.trainer_mode=colocate_async"))


def test_a_config_has_no_schedule_unless_it_sets_its_steps() -> None:
    assert find_schedule(config(*AFLOW[:2]).get, TEMPERATURE) is None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (AFLOW[2:], "steps=150: the schedule needs initial and final, too"),
        (AFLOW[1:], "steps=150: the schedule needs initial, too"),
        (
            (*AFLOW, f"{TEMPERATURE_SCHEDULE}.final=0"),
            f"{TEMPERATURE_SCHEDULE}.final=0: Input should be greater than 0",
        ),
        (
            (*AFLOW, f"{TEMPERATURE_SCHEDULE}.steps=0"),
            f"{TEMPERATURE_SCHEDULE}.steps=0: Input should be greater than",
        ),
        ((f"{TEMPERATURE_SCHEDULE}.step=5",), f"did you mean '{TEMPERATURE_SCHEDULE}.steps'?"),
    ],
)
def test_a_schedule_that_is_no_schedule_is_refused(overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(*overrides)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("trainer.v1.trainer_mode=colocate_async", "trainer.v1.trainer_mode=sync"),
        ("trainer.v1.trainer_mode=separate_async", "trainer.v1.trainer_mode=sync"),
        ("skip.rollout_tq.enable=true", "skip.rollout_tq.enable=false"),
        (
            "actor_rollout_ref.rollout.agent.agent_loop_config_path=mine.yaml",
            f"{TEMPERATURE_SCHEDULE}.steps=null",
        ),
    ],
)
def test_what_would_train_at_another_temperature_is_refused(override: str, fix: str) -> None:
    assert [conflict.fix for conflict in find_conflicts(config(*AFLOW, override))] == [fix]
    with pytest.raises(UsageError, match=override.partition("=")[0]):
        require_followed(config(*AFLOW, override))
    require_followed(config(override))


def test_answers_of_an_evaluation_are_sampled_at_the_final_temperature() -> None:
    assert rollout_temperature(config(*AFLOW)) == 0.15
    assert rollout_temperature(config("actor_rollout_ref.rollout.temperature=0.8")) == 0.8


def test_the_sampler_is_told_of_a_schedule() -> None:
    for overrides, wanted in ((AFLOW, [TEMPERATURE_SCHEDULE]), ((), [])):
        composed = verl_config(config(*overrides), CONFIGS)
        arguments = composed["trainer"]["v1"]["sampler"]["sampler_kwargs"]
        assert arguments["scheduled"] == wanted
