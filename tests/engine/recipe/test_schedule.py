"""The schedule of the temperature: its values, its keys, and what it does not go with."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.recipe.compose import SCHEDULE, verl_config
from engine.recipe.recipe import Recipe, load_recipe
from engine.recipe.schedule import (
    Schedule,
    find_conflicts,
    require_followed,
    rollout_temperature,
    temperature_schedule,
)
from tests.paths import CONFIGS

AFLOW = (f"{SCHEDULE}.initial=0.5", f"{SCHEDULE}.final=0.15", f"{SCHEDULE}.steps=150")
TEMPERATURES = st.floats(min_value=0.01, max_value=2.0)


def recipe(*overrides: str) -> Recipe:
    return load_recipe(str(CONFIGS / "grpo_tiny.yaml"), overrides, {})


@pytest.mark.parametrize(
    ("step", "temperature"), [(1, 0.4977), (2, 0.4953), (75, 0.325), (149, 0.1523), (150, 0.15)]
)
def test_the_temperature_falls_linearly_to_its_end(step: int, temperature: float) -> None:
    schedule = temperature_schedule(recipe(*AFLOW).get)
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


def test_a_config_has_no_schedule_unless_it_sets_its_steps() -> None:
    assert temperature_schedule(recipe(*AFLOW[:2]).get) is None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (AFLOW[2:], f"{SCHEDULE}.initial and {SCHEDULE}.final"),
        (AFLOW[1:], f"a schedule also needs {SCHEDULE}.initial"),
        ((*AFLOW, f"{SCHEDULE}.final=0"), f"{SCHEDULE}.final=0: Input should be greater than 0"),
        ((*AFLOW, f"{SCHEDULE}.steps=0"), f"{SCHEDULE}.steps=0: Input should be greater than"),
        ((f"{SCHEDULE}.step=5",), f"did you mean '{SCHEDULE}.steps'?"),
    ],
)
def test_a_schedule_that_is_no_schedule_is_refused(overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe(*overrides)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("trainer.v1.trainer_mode=colocate_async", "trainer.v1.trainer_mode=sync"),
        ("trainer.v1.trainer_mode=separate_async", "trainer.v1.trainer_mode=sync"),
        ("skip.rollout_tq.enable=true", "skip.rollout_tq.enable=false"),
        (
            "actor_rollout_ref.rollout.agent.agent_loop_config_path=mine.yaml",
            f"{SCHEDULE}.steps=null",
        ),
    ],
)
def test_what_would_train_at_another_temperature_is_refused(override: str, fix: str) -> None:
    assert [conflict.fix for conflict in find_conflicts(recipe(*AFLOW, override))] == [fix]
    with pytest.raises(UsageError, match=override.partition("=")[0]):
        require_followed(recipe(*AFLOW, override))
    require_followed(recipe(override))


def test_answers_of_an_evaluation_are_sampled_at_the_final_temperature() -> None:
    assert rollout_temperature(recipe(*AFLOW)) == 0.15
    assert rollout_temperature(recipe("actor_rollout_ref.rollout.temperature=0.8")) == 0.8


def test_the_sampler_is_told_of_a_schedule() -> None:
    for overrides, wanted in ((AFLOW, True), ((), False)):
        config = verl_config(recipe(*overrides), CONFIGS)
        arguments = config["trainer"]["v1"]["sampler"]["sampler_kwargs"]
        assert arguments["temperature_scheduled"] is wanted
